#include "tensor/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tensor/float_formats.h"

namespace tensorkv {
namespace {

// Returns `value` as f32, inexact results with an odd last bit. Rounding that
// once more, to fewer bits, gives the same as rounding `value` itself.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  const bool is_odd = std::bit_cast<uint32_t>(nearest) & 1;
  if (is_odd || std::isnan(value) || nearest == value) return nearest;
  return std::nextafter(nearest, value > nearest
                                     ? std::numeric_limits<float>::infinity()
                                     : -std::numeric_limits<float>::infinity());
}

template <typename T>
void Fill(Tensor& tensor, T element) {
  const absl::Span<T> elements = tensor.mutable_elements<T>();
  std::fill(elements.begin(), elements.end(), element);
}

template <typename T>
absl::Status FillInteger(Tensor& tensor, double value) {
  const double truncated = std::trunc(value);
  // Both bounds are exact in a double, which the largest i64 is not.
  const double lowest = std::numeric_limits<T>::min();
  const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!(truncated >= lowest && truncated < above)) {
    return absl::InvalidArgumentError(
        absl::StrCat("value: expected one that ", NameOf(tensor.dtype()),
                     " holds, from ", std::numeric_limits<T>::min(), " to ",
                     std::numeric_limits<T>::max(), ", got ", value));
  }
  Fill(tensor, static_cast<T>(truncated));
  return absl::OkStatus();
}

absl::Status FillWith(Tensor& tensor, double value) {
  switch (tensor.dtype()) {
    case DType::kF32:
      Fill(tensor, static_cast<float>(value));
      break;
    case DType::kF64:
      Fill(tensor, value);
      break;
    case DType::kF16:
      Fill(tensor, F32ToF16(RoundToOdd(value)));
      break;
    case DType::kBF16:
      Fill(tensor, F32ToBF16(RoundToOdd(value)));
      break;
    case DType::kF8E4M3FN:
      Fill(tensor, F32ToF8E4M3(RoundToOdd(value)));
      break;
    case DType::kF8E5M2:
      Fill(tensor, F32ToF8E5M2(RoundToOdd(value)));
      break;
    case DType::kI8:
      return FillInteger<int8_t>(tensor, value);
    case DType::kU8:
      return FillInteger<uint8_t>(tensor, value);
    case DType::kI16:
      return FillInteger<int16_t>(tensor, value);
    case DType::kU16:
      return FillInteger<uint16_t>(tensor, value);
    case DType::kI32:
      return FillInteger<int32_t>(tensor, value);
    case DType::kU32:
      return FillInteger<uint32_t>(tensor, value);
    case DType::kI64:
      return FillInteger<int64_t>(tensor, value);
    case DType::kU64:
      return FillInteger<uint64_t>(tensor, value);
    case DType::kBool:
      Fill<uint8_t>(tensor, value != 0);
      break;
    case DType::kUnknown:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> Tensor::Allocate(DType dtype, Shape shape) {
  ASSIGN_OR_RETURN(const int64_t size_bytes, SizeInBytes(dtype, shape));
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, HostBuffer::Allocate(size_bytes));
  return Tensor(dtype, std::move(shape), std::move(buffer));
}

absl::StatusOr<Tensor> Tensor::FromBuffer(DType dtype, Shape shape,
                                          RefPtr<Buffer> buffer) {
  ASSIGN_OR_RETURN(const int64_t expected, SizeInBytes(dtype, shape));
  const size_t actual = buffer ? buffer->size_bytes() : 0;
  if (actual != static_cast<size_t>(expected)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", expected, " bytes for ",
                     tensorkv::Description(dtype, shape), ", got ", actual));
  }
  return Tensor(dtype, std::move(shape), std::move(buffer));
}

absl::StatusOr<Tensor> Tensor::WithoutData(DType dtype, Shape shape) {
  RETURN_IF_ERROR(SizeInBytes(dtype, shape).status());
  return Tensor(dtype, std::move(shape), nullptr);
}

absl::StatusOr<Tensor> Tensor::Filled(DType dtype, Shape shape, double value) {
  ASSIGN_OR_RETURN(Tensor tensor, Allocate(dtype, std::move(shape)));
  RETURN_IF_ERROR(FillWith(tensor, value));
  return tensor;
}

absl::StatusOr<Tensor> Tensor::CopyOf(DType dtype, Shape shape,
                                      const void* data) {
  ASSIGN_OR_RETURN(Tensor tensor, Allocate(dtype, std::move(shape)));
  if (tensor.size_bytes() > 0) {
    std::memcpy(tensor.mutable_data(), data, tensor.size_bytes());
  }
  return tensor;
}

std::string Tensor::Description() const {
  return tensorkv::Description(dtype_, shape_);
}

std::string Description(DType dtype, const Shape& shape) {
  return absl::StrCat(NameOf(dtype), shape.ToString());
}

}  // namespace tensorkv
