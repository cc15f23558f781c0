// Says which strings may name keys, namespaces and patterns.

#ifndef TENSORKV_SERVICE_STORE_NAMES_H_
#define TENSORKV_SERVICE_STORE_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/glob.h"

namespace tensorkv {

inline constexpr size_t kMaxKeyBytes = 1024;
inline constexpr size_t kMaxNamespaceBytes = 256;

// The namespace that exists from the start and that an empty name means.
inline constexpr absl::string_view kDefaultNamespace = "default";

// Returns `name` in quotes, escaped and cut off so that it is safe to show.
std::string Quoted(absl::string_view name);

// Returns whether every byte of `word` is at least 0x20 and below 0x7f. A
// borrow or carry comes only from a byte that is not.
inline bool IsPrintableAsciiWord(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighBits = 0x80 * kOnes;
  const uint64_t too_low = word - 0x20 * kOnes;
  const uint64_t too_high = word + kOnes;
  return ((word | too_low | too_high) & kHighBits) == 0;
}

// Returns whether `name` is ASCII without control characters, as most names
// are. Here, because large calls ask for thousands of names.
inline bool IsPrintableAscii(absl::string_view name) {
  uint64_t word = 0x2020202020202020;
  if (name.size() < sizeof(uint32_t)) {
    for (const char c : name) word = word << 8 | static_cast<uint8_t>(c);
    return IsPrintableAsciiWord(word);
  }
  if (name.size() < sizeof(word)) {
    uint32_t ends[2];  // they overlap
    std::memcpy(&ends[0], name.data(), sizeof(uint32_t));
    std::memcpy(&ends[1], name.data() + name.size() - sizeof(uint32_t),
                sizeof(uint32_t));
    return IsPrintableAsciiWord(uint64_t{ends[0]} << 32 | ends[1]);
  }
  const size_t last = name.size() - sizeof(word);
  for (size_t i = 0; i < last; i += sizeof(word)) {
    std::memcpy(&word, name.data() + i, sizeof(word));
    if (!IsPrintableAsciiWord(word)) return false;
  }
  std::memcpy(&word, name.data() + last, sizeof(word));
  return IsPrintableAsciiWord(word);
}

// Checks a key as CheckKey does, slowly. Call CheckKey.
absl::Status CheckAnyKey(absl::string_view key);

// Checks that a key is valid UTF-8 of 1 to 1024 bytes without control
// characters. Errors: InvalidArgument.
inline absl::Status CheckKey(absl::string_view key) {
  const bool is_usual =
      !key.empty() && key.size() <= kMaxKeyBytes && IsPrintableAscii(key);
  return is_usual ? absl::OkStatus() : CheckAnyKey(key);
}

// Checks a name as that of a key, but of at most 256 bytes. Errors:
// InvalidArgument.
absl::Status CheckNamespaceName(absl::string_view name);

// Check the name of a worker, or of a barrier, as that of a namespace. Errors:
// InvalidArgument.
absl::Status CheckWorkerName(absl::string_view name);
absl::Status CheckBarrierName(absl::string_view name);

// Checks a pattern of keys, which a Glob can be made of, as the name of a
// namespace; it may be empty. Errors: InvalidArgument.
absl::Status CheckKeyPattern(absl::string_view pattern);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMES_H_
