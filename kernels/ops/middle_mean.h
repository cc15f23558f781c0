// The mean of what is in the middle of the contributions to one element, in
// the order of their values: the median, or a trimmed mean.
//
// NaN come last, and of equals the earlier contribution is first. What is kept
// is added in the order of the contributions and divided by its number; their
// sum may overflow where each of them is finite.

#ifndef TENSORKV_KERNELS_OPS_MIDDLE_MEAN_H_
#define TENSORKV_KERNELS_OPS_MIDDLE_MEAN_H_

#include <stdint.h>

#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// Returns whether `other` comes before `own` in the order of values.
// `is_earlier`: the contribution of `other` is earlier than that of `own`.
template <bool is_earlier, typename T>
HOST_DEVICE bool ComesBefore(T other, T own) {
  if constexpr (is_earlier) {
    return !((own < other) | ((other != other) & (own == own)));
  } else {
    return (other < own) | ((own != own) & (other == other));
  }
}

// The positions in the order of values that are averaged.
struct Middle {
  uint32_t first;
  uint32_t size;

  HOST_DEVICE static Middle Create(uint32_t num_contributions,
                                   uint32_t num_averaged) {
    return {(num_contributions - num_averaged) / 2, num_averaged};
  }

  // Returns whether a contribution with this position, from 0, is averaged.
  // REQUIRES: Position is unsigned.
  template <typename Position>
  HOST_DEVICE bool Has(Position position) const {
    return position - Position{first} < Position{size};
  }
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_MIDDLE_MEAN_H_
