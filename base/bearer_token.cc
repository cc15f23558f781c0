#include "base/bearer_token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <cstdlib>

#include "absl/strings/escaping.h"

namespace tensorkv {

std::string NewBearerToken() {
  std::string bytes(32, '\0');
  // Without randomness there must be no token.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                 static_cast<int>(bytes.size())) != 1) {
    std::abort();
  }
  std::string token;
  absl::WebSafeBase64Escape(bytes, &token);
  return token;
}

TokenDigest DigestOf(absl::string_view token) {
  TokenDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         digest.data());
  return digest;
}

bool ConstantTimeEquals(const TokenDigest& one, const TokenDigest& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace tensorkv
