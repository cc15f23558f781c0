#include "tensor/dtype.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv {
namespace {

// By number, from 1.
constexpr absl::string_view kNames[] = {"f32",      "f64",    "f16", "bf16",
                                        "f8e4m3fn", "f8e5m2", "i8",  "u8",
                                        "i16",      "i32",    "i64", "bool"};
static_assert(std::size(kNames) == std::size(kAllDTypes));

std::string AllNames() {
  return absl::StrJoin(kAllDTypes, ", ", [](std::string* out, DType dtype) {
    absl::StrAppend(out, NameOf(dtype));
  });
}

}  // namespace

absl::string_view NameOf(DType dtype) {
  return kNames[static_cast<int>(dtype) - 1];
}

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

}  // namespace tensorkv
