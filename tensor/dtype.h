// The element types of tensors: sizes, names, and what sums are kept in.

#ifndef TENSORKV_TENSOR_DTYPE_H_
#define TENSORKV_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// The numbers are those of tensorkv.v1.DType. No tensor is of kUnknown, which
// stands for a dtype that only a newer server knows, where that describes its
// keys.
enum class DType : uint8_t {
  kUnknown = 0,
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
  kU16 = 13,
  kU32 = 14,
  kU64 = 15,
};

struct DTypeTraits {
  absl::string_view name;
  size_t size_bytes;  // of one element
  bool is_float;
};

// By number.
inline constexpr DTypeTraits kDTypeTraits[] = {
    {"unknown", 0, false},  //
    {"f32", 4, true},      {"f64", 8, true},      {"f16", 2, true},
    {"bf16", 2, true},     {"f8e4m3fn", 1, true}, {"f8e5m2", 1, true},
    {"i8", 1, false},      {"u8", 1, false},      {"i16", 2, false},
    {"i32", 4, false},     {"i64", 8, false},     {"bool", 1, false},
    {"u16", 2, false},     {"u32", 4, false},     {"u64", 8, false},
};

inline constexpr DType kAllDTypes[] = {
    DType::kF32,    DType::kF64, DType::kF16, DType::kBF16, DType::kF8E4M3FN,
    DType::kF8E5M2, DType::kI8,  DType::kU8,  DType::kI16,  DType::kU16,
    DType::kI32,    DType::kU32, DType::kI64, DType::kU64,  DType::kBool};

constexpr const DTypeTraits& TraitsOf(DType dtype) {
  return kDTypeTraits[static_cast<int>(dtype)];
}

// Returns the bytes of one element: 1, 2, 4 or 8; 0 for kUnknown.
constexpr size_t SizeOf(DType dtype) { return TraitsOf(dtype).size_bytes; }

// Returns "f32", "bf16", "bool", ...
constexpr absl::string_view NameOf(DType dtype) { return TraitsOf(dtype).name; }

// Returns the dtype with that name. Errors: InvalidArgument, listing the names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// Returns the dtype with that number in tensorkv.v1.DType.
// Errors: InvalidArgument for other numbers, and 0 (kUnknown).
absl::StatusOr<DType> DTypeFromNumber(int number);

// Returns whether `dtype` is f64, f32, f16, bf16 or one of both f8.
constexpr bool IsFloat(DType dtype) { return TraitsOf(dtype).is_float; }

constexpr bool IsUnsigned(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 ||
         dtype == DType::kU64;
}

// Returns the dtype in which sums and rule states of a `dtype` key are kept:
// f32 for f32 and the smaller floats, otherwise `dtype` itself.
constexpr DType AccumulateType(DType dtype) {
  return IsFloat(dtype) && dtype != DType::kF64 ? DType::kF32 : dtype;
}

// Returns the signed dtype of the size of an unsigned `dtype` of 16 bits or
// more, in which sums and products have the same bits, since integers wrap;
// other dtypes are returned as they are.
constexpr DType WrappingType(DType dtype) {
  switch (dtype) {
    case DType::kU16:
      return DType::kI16;
    case DType::kU32:
      return DType::kI32;
    case DType::kU64:
      return DType::kI64;
    default:
      return dtype;
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_DTYPE_H_
