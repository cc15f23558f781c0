// One element of an update: how every loop and kernel calls a functor.

#ifndef TENSORKV_KERNELS_OPS_ELEMENT_H_
#define TENSORKV_KERNELS_OPS_ELEMENT_H_

#include <stdint.h>

#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// Elements of the array that a functor's states of one element are in: an array
// cannot be empty.
template <typename Op>
inline constexpr int kStatePlaces = Op::kNumStates > 0 ? Op::kNumStates : 1;

// Whether the functor takes a random number for each element.
template <typename Op>
inline constexpr bool kTakesNoise = requires(const Op& op) {
  op.noise(uint64_t{});
};

// Returns the new value of element `index` of the key and updates its states.
template <typename Op, typename T, int size>
HOST_DEVICE T UpdateElement(const Op& op, T w, T g, T (&states)[size],
                            uint64_t index) {
  static_assert(size == kStatePlaces<Op>);
  if constexpr (Op::kNumStates > 0) {
    return op(w, g, states);
  } else if constexpr (kTakesNoise<Op>) {
    return op(w, g, op.noise(index));
  } else {
    return op(w, g);
  }
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ELEMENT_H_
