// Matches keys with patterns.

#ifndef TENSORKV_BASE_GLOB_H_
#define TENSORKV_BASE_GLOB_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Matching takes up to four steps per byte of a key (see Glob).
inline constexpr size_t kMaxPatternBytes = 256;

// A key pattern, made ready to be matched with many keys: '*' is any run of
// characters, '?' one character (a UTF-8 sequence), everything else itself.
// Used by one thread at a time until Compile has been called, then by any
// number of threads.
//
// What stands before the first '*' and after the last one is compared in place.
// For what is between, a bit set says how much of it a prefix of the key may
// have matched, and each further byte moves all the bits at once. So a match
// takes time in proportion to the key, times one step per 64 bytes of pattern,
// whatever the two contain.
class Glob {
 public:
  // `pattern`, which outlives this, is of at most kMaxPatternBytes.
  explicit Glob(absl::string_view pattern);

  // Builds the tables that Matches would build when it first needs them.
  void Compile() const;

  // Returns whether all of `text` matches the pattern.
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
  mutable std::unique_ptr<Middle> compiled_;
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_GLOB_H_
