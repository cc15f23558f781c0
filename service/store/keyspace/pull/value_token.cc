#include "service/store/keyspace/pull/value_token.h"

#include <cstring>
#include <random>

#include "xxhash.h"

namespace tensorkv {
namespace {

// Is the first byte, so that later servers can have another form.
constexpr char kForm = 1;

// Holds what a token has after its form and its dtype.
struct NumbersOfToken {
  uint64_t incarnation;
  uint64_t key_hash;
  uint64_t version;
  uint64_t revision;
};
constexpr size_t kNumbersBegin = 2;
constexpr size_t kTokenBytes = kNumbersBegin + sizeof(NumbersOfToken);

uint64_t RandomNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

TokenNumbers::TokenNumbers()
    : incarnation_(RandomNumber()), seed_(RandomNumber()) {}

uint64_t TokenNumbers::HashOf(absl::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed_);
}

std::optional<ValueToken> ValueToken::Parse(absl::string_view token) {
  if (token.size() != kTokenBytes || token[0] != kForm) return std::nullopt;
  NumbersOfToken numbers;
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
  const NumbersOfToken numbers = {incarnation, key_hash, version, revision};
  std::string token(kTokenBytes, '\0');
  token[0] = kForm;
  token[1] = static_cast<char>(dtype);
  std::memcpy(&token[kNumbersBegin], &numbers, sizeof(numbers));
  return token;
}

}  // namespace tensorkv
