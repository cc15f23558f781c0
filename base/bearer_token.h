// Secrets that say who somebody is.

#ifndef TENSORKV_BASE_BEARER_TOKEN_H_
#define TENSORKV_BASE_BEARER_TOKEN_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// A token's SHA-256, which is no secret: nobody finds a token of 256 random
// bits by it.
using TokenDigest = std::array<uint8_t, 32>;

// Returns 256 random bits in URL-safe base64. Aborts the process if the system
// has no randomness.
std::string NewBearerToken();

// Returns the SHA-256 of the token's text.
TokenDigest DigestOf(absl::string_view token);

// Returns whether the two are equal, in a time that does not depend on them.
bool ConstantTimeEquals(const TokenDigest& one, const TokenDigest& other);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_BEARER_TOKEN_H_
