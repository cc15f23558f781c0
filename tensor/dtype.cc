#include "tensor/dtype.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv {
namespace {

struct Traits {
  absl::string_view name;
  size_t size;
  bool is_float;
  DType accumulate;
};

// By number, from 1.
constexpr Traits kTraits[] = {
    {"f32", 4, true, DType::kF32},    {"f64", 8, true, DType::kF64},
    {"f16", 2, true, DType::kF32},    {"bf16", 2, true, DType::kF32},
    {"f8e4m3", 1, true, DType::kF32}, {"f8e5m2", 1, true, DType::kF32},
    {"i8", 1, false, DType::kI8},     {"u8", 1, false, DType::kU8},
    {"i16", 2, false, DType::kI16},   {"i32", 4, false, DType::kI32},
    {"i64", 8, false, DType::kI64},   {"bool", 1, false, DType::kBool}};
static_assert(std::size(kTraits) == std::size(kAllDTypes));

const Traits& TraitsOf(DType dtype) {
  return kTraits[static_cast<int>(dtype) - 1];
}

std::string AllNames() {
  return absl::StrJoin(kAllDTypes, ", ", [](std::string* out, DType dtype) {
    absl::StrAppend(out, NameOf(dtype));
  });
}

}  // namespace

size_t SizeOf(DType dtype) { return TraitsOf(dtype).size; }

absl::string_view NameOf(DType dtype) { return TraitsOf(dtype).name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (NameOf(dtype) == name) return dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype: expected one of ", AllNames(), ", got \"", name, "\""));
}

absl::StatusOr<DType> DTypeFromNumber(int number) {
  constexpr int kNumDTypes = std::size(kAllDTypes);
  if (number >= 1 && number <= kNumDTypes) return static_cast<DType>(number);
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype: expected a number from 1 to ", kNumDTypes, ", got ", number));
}

bool IsFloat(DType dtype) { return TraitsOf(dtype).is_float; }

DType AccumulateType(DType dtype) { return TraitsOf(dtype).accumulate; }

}  // namespace tensorkv
