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

// Returns the elements of a tensor that the member sums: about one of
// `num_members` equal parts. A small tensor is summed whole by one member,
// which `place`, the tensor's place in the attempt, chooses; the others have an
// empty range. The ranges of all members are the tensor, without gap or
// overlap. A pure function: every member gets the same.
ElementRange RangeOf(int64_t num_elements, size_t place, uint32_t member,
                     uint32_t num_members);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_RANGE_LAYOUT_H_
