#include "tensor/shape.h"

#include <cassert>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv {
namespace {

std::string Text(absl::Span<const int64_t> dimensions) {
  return absl::StrCat("[", absl::StrJoin(dimensions, ","), "]");
}

absl::Status Check(absl::Span<const int64_t> dimensions) {
  if (dimensions.size() > Shape::kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: expected a rank of at most ", Shape::kMaxRank,
                     ", got ", dimensions.size()));
  }
  int64_t product = 1;
  for (int64_t dimension : dimensions) {
    if (dimension < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape: expected no negative dimension, got ", Text(dimensions)));
    }
    if (dimension != 0 &&
        __builtin_mul_overflow(product, dimension, &product)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape: expected fewer than 2^63 elements, got ", Text(dimensions)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dimensions) {
  const bool is_valid = Check(dimensions).ok();
  assert(is_valid);
  if (is_valid) Assign(dimensions);
}

absl::StatusOr<Shape> Shape::Create(absl::Span<const int64_t> dimensions) {
  if (absl::Status status = Check(dimensions); !status.ok()) return status;
  Shape shape;
  shape.Assign(dimensions);
  return shape;
}

std::string Shape::ToString() const { return Text(dimensions()); }

absl::StatusOr<int64_t> SizeInBytes(DType dtype, const Shape& shape) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(),
                             static_cast<int64_t>(SizeOf(dtype)), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: expected fewer than 2^63 bytes, got ",
                     NameOf(dtype), shape.ToString()));
  }
  return bytes;
}

}  // namespace tensorkv
