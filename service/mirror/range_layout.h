// Decides which member of a group sums which elements.

#ifndef TENSORKV_SERVICE_MIRROR_RANGE_LAYOUT_H_
#define TENSORKV_SERVICE_MIRROR_RANGE_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace tensorkv {

// Elements that follow one another.
struct ElementRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Returns a member's range of a tensor of so many elements. Tensors that would
// make small ranges are whole, each of another member by `place`, that of the
// tensor among those of the attempt. All ranges together are the tensor,
// without gap or overlap. A pure function: every member makes the same.
ElementRange RangeOf(int64_t num_elements, size_t place, uint32_t member,
                     uint32_t num_members);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_RANGE_LAYOUT_H_
