// Slices of large tensors, which are keys of their own. What they mean is
// written in proto/tensorkv/v1/cluster.proto.

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

// What the name of a slice says.
struct SliceName {
  // Below `count`.
  uint32_t index = 0;
  uint32_t count = 0;
  // Those of the whole tensor.
  std::vector<int64_t> dimensions;
  // Within the name.
  absl::string_view key;
};

// Nothing if the key is that of no slice. Does not allocate then, unless it
// begins like one.
std::optional<SliceName> ParseSliceName(absl::string_view name);

std::string SliceNameOf(absl::string_view key, uint32_t index, uint32_t count,
                        absl::Span<const int64_t> dimensions);

// The key that patterns match: that of the whole tensor if `name` is that of a
// slice, else `name` itself.
absl::string_view WholeKeyOf(absl::string_view name);

// `text` with keys in the place of names of slices, for people to read.
std::string WithWholeKeys(absl::string_view text);

// The first row of a slice; of `index` = `count` the number of rows.
// REQUIRES: count > 0, index <= count, num_rows >= 0.
int64_t FirstRowOfSlice(int64_t num_rows, uint32_t index, uint32_t count);

// Whether the rule of that name computes sums over all of a key, so that it
// takes no slices.
bool TakesWholeKeys(absl::string_view rule);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_SLICES_H_
