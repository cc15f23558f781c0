// The tensors that a rule keeps for a key.

#ifndef TENSORKV_KERNELS_STATE_SPEC_H_
#define TENSORKV_KERNELS_STATE_SPEC_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tensorkv {

enum class StateShape : uint8_t {
  kLikeValue,
  // One element for each row of the value: its first dimension alone. Every
  // value has rows but those of rank 0, which are one row.
  kPerRow,
  // One for each column: all dimensions but the first.
  kPerColumn,
};

// One tensor that a rule keeps for a key, in the accumulate type of its dtype.
struct StateSpec {
  absl::string_view name;
  StateShape shape = StateShape::kLikeValue;

  // Returns the shape of the state for a value of shape `value`, as the member
  // `shape` says: the value's, its first dimension, or all but the first. For a
  // scalar, the value's.
  Shape ShapeFor(const Shape& value) const {
    if (shape == StateShape::kLikeValue || value.rank() == 0) return value;
    return Shape::OfValid(shape == StateShape::kPerRow
                              ? value.dimensions().first(1)
                              : value.dimensions().subspan(1));
  }
  // Returns the dtype of the states of a value of dtype `value`.
  static DType DTypeFor(DType value) { return AccumulateType(value); }

  friend bool operator==(const StateSpec&, const StateSpec&) = default;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_STATE_SPEC_H_
