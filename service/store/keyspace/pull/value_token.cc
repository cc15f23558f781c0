#include "service/store/keyspace/pull/value_token.h"

#include <cstring>

#include "xxhash.h"

namespace tensorkv {
namespace {

// The first byte, so that later servers can have another form.
constexpr char kForm = 1;

// Holds what a token has after its form and its dtype.
struct TokenNumbers {
  uint64_t incarnation;
  uint64_t key_hash;
  uint64_t version;
  uint64_t revision;
};
constexpr size_t kNumbersBegin = 2;
constexpr size_t kTokenBytes = kNumbersBegin + sizeof(TokenNumbers);

}  // namespace

std::optional<ValueToken> ValueToken::Parse(absl::string_view token) {
  if (token.size() != kTokenBytes || token[0] != kForm) return std::nullopt;
  TokenNumbers numbers;
  std::memcpy(&numbers, token.data() + kNumbersBegin, sizeof(numbers));
  const auto dtype = DTypeFromNumber(static_cast<uint8_t>(token[1]));
  if (!dtype.ok()) return std::nullopt;
  return ValueToken{.incarnation = numbers.incarnation,
                    .key_hash = numbers.key_hash,
                    .version = numbers.version,
                    .revision = numbers.revision,
                    .dtype = *dtype};
}

std::string ValueToken::ToString() const {
  const TokenNumbers numbers = {incarnation, key_hash, version, revision};
  std::string token(kTokenBytes, '\0');
  token[0] = kForm;
  token[1] = static_cast<char>(dtype);
  std::memcpy(&token[kNumbersBegin], &numbers, sizeof(numbers));
  return token;
}

uint64_t TokenHashOf(absl::string_view key) {
  return XXH3_64bits(key.data(), key.size());
}

}  // namespace tensorkv
