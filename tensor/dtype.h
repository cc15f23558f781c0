// The element types of tensors: sizes, names, and what sums are kept in.

#ifndef TENSORKV_TENSOR_DTYPE_H_
#define TENSORKV_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// The numbers are those of tensorkv.v1.DType.
enum class DType : uint8_t {
  kF32 = 1,
  kF64 = 2,
  kF16 = 3,
  kBF16 = 4,
  kF8E4M3FN = 5,
  kF8E5M2 = 6,
  kI8 = 7,
  kU8 = 8,
  kI16 = 9,
  kI32 = 10,
  kI64 = 11,
  kBool = 12,
};

inline constexpr DType kAllDTypes[] = {
    DType::kF32,      DType::kF64,    DType::kF16, DType::kBF16,
    DType::kF8E4M3FN, DType::kF8E5M2, DType::kI8,  DType::kU8,
    DType::kI16,      DType::kI32,    DType::kI64, DType::kBool};

// Bytes of one element: 1, 2, 4 or 8.
constexpr size_t SizeOf(DType dtype) {
  constexpr uint8_t kSizes[] = {4, 8, 2, 2, 1, 1, 1, 1, 2, 4, 8, 1};
  return kSizes[static_cast<int>(dtype) - 1];
}

// "f32", "bf16", "bool", ...
absl::string_view NameOf(DType dtype);

// The dtype with that name. Errors: InvalidArgument, listing the names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// The dtype with that number in tensorkv.v1.DType.
// Errors: InvalidArgument.
absl::StatusOr<DType> DTypeFromNumber(int number);

// f64, f32, f16, bf16 and both f8.
constexpr bool IsFloat(DType dtype) { return dtype <= DType::kF8E5M2; }

// What sums and rule state of a `dtype` key are kept in: f32 for f32 and the
// smaller floats, otherwise `dtype` itself.
constexpr DType AccumulateType(DType dtype) {
  return IsFloat(dtype) && dtype != DType::kF64 ? DType::kF32 : dtype;
}

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_DTYPE_H_
