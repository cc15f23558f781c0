// The dimensions of a tensor.

#ifndef TENSORKV_TENSOR_SHAPE_H_
#define TENSORKV_TENSOR_SHAPE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/dtype.h"

namespace tensorkv {

// Rank 0 (a scalar, one element) to 8, row-major; dimensions may be zero. A
// value type: copies are independent, const access is thread-safe.
//
// Invariant: the product of the dimensions fits into int64_t, zeros left out
// of the product (so that [0, 2^62, 2^62] is rejected too: no later slice of
// it could overflow).
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  // Makes the shape of a scalar.
  Shape() = default;

  // REQUIRES: dimensions known to be valid, as literals are. Invalid ones give
  // a scalar in optimised builds; input goes through Create.
  Shape(std::initializer_list<int64_t> dimensions);

  // Errors: InvalidArgument for a rank above 8, a negative dimension, or a
  // product that overflows.
  static absl::StatusOr<Shape> Create(absl::Span<const int64_t> dimensions);

  // Returns the shape without checking it. REQUIRES: Create would accept the
  // dimensions.
  static Shape OfValid(absl::Span<const int64_t> dimensions) {
    Shape shape;
    shape.Assign(dimensions);
    return shape;
  }

  absl::Span<const int64_t> dimensions() const {
    return absl::MakeConstSpan(dimensions_).first(rank_);
  }
  int rank() const { return rank_; }
  int64_t num_elements() const {
    int64_t product = 1;
    for (const int64_t dimension : dimensions()) product *= dimension;
    return product;
  }

  // Returns "[2,3]", or "[]" for a scalar.
  std::string ToString() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  // REQUIRES: valid dimensions.
  void Assign(absl::Span<const int64_t> dimensions) {
    rank_ = static_cast<int>(dimensions.size());
    std::copy(dimensions.begin(), dimensions.end(), dimensions_.begin());
  }

  int rank_ = 0;
  std::array<int64_t, kMaxRank> dimensions_{};  // zeros from rank_ on
};

// Returns the bytes that a tensor of `dtype` and `shape` takes.
// Errors: InvalidArgument if they do not fit into int64_t.
absl::StatusOr<int64_t> SizeInBytes(DType dtype, const Shape& shape);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_SHAPE_H_
