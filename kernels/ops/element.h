// One element of an update: how every loop and kernel calls a functor.

#ifndef TENSORKV_KERNELS_OPS_ELEMENT_H_
#define TENSORKV_KERNELS_OPS_ELEMENT_H_

#include <stdint.h>

#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// The size of the array that holds a functor's states of one element: at least
// 1, as an array cannot be empty.
template <typename Op>
inline constexpr int kStatePlaces = Op::kNumStates > 0 ? Op::kNumStates : 1;

// Whether the functor takes a random number for each element: it has a member
// `noise`.
template <typename Op>
inline constexpr bool kTakesNoise = requires(const Op& op) {
  op.noise(uint64_t{});
};

// Returns whether the functor's values must stay as they are, to the bit, while
// its states are updated: the learning rate of an optimizer is 0.
template <typename Op>
HOST_DEVICE bool IsFrozen(const Op& op) {
  if constexpr (requires { op.gradient.is_frozen; }) {
    return op.gradient.is_frozen;
  } else {
    return false;
  }
}

// Returns the new value of an element and updates its states. `noise` is its
// random number, for functors that take one.
template <typename Op, typename T, int size>
HOST_DEVICE T UpdateWithNoise(const Op& op, T w, T g, T (&states)[size],
                              T noise) {
  static_assert(size == kStatePlaces<Op>);
  T next;
  if constexpr (Op::kNumStates > 0) {
    next = op(w, g, states);
  } else if constexpr (kTakesNoise<Op>) {
    next = op(w, g, noise);
  } else {
    next = op(w, g);
  }
  return IsFrozen(op) ? w : next;
}

// Returns the new value of element `index` of the key and updates its states.
template <typename Op, typename T, int size>
HOST_DEVICE T UpdateElement(const Op& op, T w, T g, T (&states)[size],
                            uint64_t index) {
  if constexpr (kTakesNoise<Op>) {
    return UpdateWithNoise(op, w, g, states, op.noise(index));
  } else {
    return UpdateWithNoise(op, w, g, states, T());
  }
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ELEMENT_H_
