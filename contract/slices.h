// Names the slices of large tensors, which are keys of their own.
// proto/tensorkv/v1/cluster.proto says what slices are.

#ifndef TENSORKV_CONTRACT_SLICES_H_
#define TENSORKV_CONTRACT_SLICES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorkv {

// U+10FFFF, with which the names of slices begin.
inline constexpr absl::string_view kSliceMark = "\xf4\x8f\xbf\xbf";

// Has what the name of a slice says.
struct SliceName {
  // Below `count`.
  uint32_t index = 0;
  uint32_t count = 0;
  // The dimensions of the whole tensor.
  std::vector<int64_t> dimensions;
  // The key of the whole tensor; a part of the name that was parsed.
  absl::string_view key;
};

// Parses the name of a slice. Returns nothing for the key of no slice, without
// an allocation unless it begins like a slice.
std::optional<SliceName> ParseSliceName(absl::string_view name);

// Returns the name of slice `index` of the `count` slices of `key`, whose whole
// tensor has these dimensions.
std::string SliceNameOf(absl::string_view key, uint32_t index, uint32_t count,
                        absl::Span<const int64_t> dimensions);

// Returns the key that patterns match: the key of the whole tensor if `name` is
// the name of a slice, else `name` itself.
absl::string_view WholeKeyOf(absl::string_view name);

// Returns `text`, such as an error message, with the name of each slice
// replaced by its key.
std::string WithWholeKeys(absl::string_view text);

// Returns the first row of slice `index`; the number of rows where `index` is
// `count`.
// REQUIRES: count > 0, index <= count, num_rows >= 0.
int64_t FirstRowOfSlice(int64_t num_rows, uint32_t index, uint32_t count);

// Returns whether the rule of that name computes sums over all of a key, so
// that its keys cannot be in slices.
bool NeedsWholeKeys(absl::string_view rule);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_SLICES_H_
