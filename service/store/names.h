// Which strings may name keys, namespaces and patterns.

#ifndef TENSORKV_SERVICE_STORE_NAMES_H_
#define TENSORKV_SERVICE_STORE_NAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

inline constexpr size_t kMaxKeyBytes = 1024;
inline constexpr size_t kMaxNamespaceBytes = 256;
// Matching takes up to four steps per byte of a key (see Glob).
inline constexpr size_t kMaxPatternBytes = 256;

// The namespace that exists from the start and that an empty name means.
inline constexpr absl::string_view kDefaultNamespace = "default";

// `name` in quotes, escaped and cut so that it is safe to show.
std::string Quoted(absl::string_view name);

// Valid UTF-8 of 1 to 1024 bytes without control characters.
// Errors: InvalidArgument.
absl::Status CheckKey(absl::string_view key);

// As a key, but of at most 256 bytes. Errors: InvalidArgument.
absl::Status CheckNamespaceName(absl::string_view name);

// Workers and barriers are named like namespaces. Errors: InvalidArgument.
absl::Status CheckWorkerName(absl::string_view name);
absl::Status CheckBarrierName(absl::string_view name);

// As the name of a namespace, or empty. Errors: InvalidArgument.
absl::Status CheckKeyPattern(absl::string_view pattern);

// A key pattern, made ready to be matched with many keys: '*' is any run of
// characters, '?' one character (a UTF-8 sequence), everything else itself.
// Used by one thread at a time until Prepare has been called, then by any
// number of threads.
//
// What stands before the first '*' and after the last one is compared in place.
// For what is between, a bit set says how much of it a prefix of the key may
// have matched, and each further byte moves all the bits at once. So a match
// takes time in proportion to the key, times one step per 64 bytes of pattern,
// whatever the two contain.
class Glob {
 public:
  // `pattern`, which outlives this, has passed CheckKeyPattern.
  explicit Glob(absl::string_view pattern);

  // Makes what the first match would make else, if it needs it.
  void Prepare() const;

  // Whether all of `text` matches.
  bool Matches(absl::string_view text) const;

 private:
  // One bit for each number of items (bytes and '?') of the middle that may
  // have been matched.
  using Bits = std::array<uint64_t, kMaxPatternBytes / 64>;
  struct Middle {
    size_t num_items = 0;
    // Says for each byte which items it matches.
    std::array<Bits, 256> matches = {};
    // After how many items anything may follow.
    Bits loops = {};
    // After how many items the last one was '?', which takes all of its
    // sequence.
    Bits in_sequence = {};
  };

  bool ContainsMiddle(absl::string_view text) const;

  absl::string_view head_;
  // Between the first '*' and the last one, both included; empty without '*'.
  absl::string_view middle_;
  absl::string_view tail_;
  // Made when first needed: most patterns are refused by head or tail.
  mutable std::unique_ptr<Middle> prepared_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMES_H_
