// The elements of tensors as C++ values, with a check that they are such.
//
//   ASSIGN_OR_RETURN(absl::Span<const BFloat16> row, ElementsOf<BFloat16>(t));
//   const float first = row[0];

#ifndef TENSORKV_TENSOR_ELEMENTS_H_
#define TENSORKV_TENSOR_ELEMENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensor/dtype.h"
#include "tensor/float_formats.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

// An f16 and a bf16. They convert to and from float, rounded as float_formats.h
// says, and have no arithmetic of their own.
class Half {
 public:
  Half() = default;
  constexpr explicit Half(float value) : bits_(F32ToF16(value)) {}
  constexpr operator float() const { return F16ToF32(bits_); }

 private:
  uint16_t bits_ = 0;
};

class BFloat16 {
 public:
  BFloat16() = default;
  constexpr explicit BFloat16(float value) : bits_(F32ToBF16(value)) {}
  constexpr operator float() const { return BF16ToF32(bits_); }

 private:
  uint16_t bits_ = 0;
};

// The dtype whose elements are Ts. The 8-bit floats have none.
template <typename T>
constexpr DType kDTypeOf = DType::kUnknown;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<Half> = DType::kF16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kI8;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kU8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kI16;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kU16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::kU32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::kU64;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;

// Checks that the elements of `tensor`, which is in host memory, can be read as
// `dtype`.
// Errors: InvalidArgument if the tensor has another dtype or no data, its
// memory is not aligned to an element, or a bool is neither 0 nor 1.
absl::Status CheckElements(const Tensor& tensor, DType dtype);

// Returns the elements, which are valid as long as the tensor's buffer lives.
// Errors: those of CheckElements.
template <typename T>
absl::StatusOr<absl::Span<const T>> ElementsOf(const Tensor& tensor) {
  static_assert(kDTypeOf<T> != DType::kUnknown, "T is no type of elements");
  absl::Status status = CheckElements(tensor, kDTypeOf<T>);
  if (!status.ok()) return status;
  return tensor.elements<T>();
}

// Returns a new tensor in host memory with copies of `elements`.
// Errors: InvalidArgument if they are not as many as `shape` takes ·
// ResourceExhausted.
template <typename T>
absl::StatusOr<Tensor> TensorOf(const Shape& shape,
                                absl::Span<const T> elements) {
  static_assert(kDTypeOf<T> != DType::kUnknown, "T is no type of elements");
  if (static_cast<int64_t>(elements.size()) != shape.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected the ", shape.num_elements(), " elements of ",
                     shape.ToString(), ", got ", elements.size()));
  }
  return Tensor::CopyOf(kDTypeOf<T>, shape, elements.data());
}

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_ELEMENTS_H_
