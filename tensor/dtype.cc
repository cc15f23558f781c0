#include "tensor/dtype.h"

#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv {
namespace {

constexpr int kNumDTypes = std::size(kAllDTypes);
static_assert(std::size(kDTypeTraits) == kNumDTypes + 1);

std::string AllNames() {
  return absl::StrJoin(kAllDTypes, ", ", [](std::string* out, DType dtype) {
    absl::StrAppend(out, NameOf(dtype));
  });
}

}  // namespace

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (NameOf(dtype) == name) return dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype: expected one of ", AllNames(), ", got \"", name, "\""));
}

absl::StatusOr<DType> DTypeFromNumber(int number) {
  if (number >= 1 && number <= kNumDTypes) return static_cast<DType>(number);
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype: expected a number from 1 to ", kNumDTypes, ", got ", number));
}

}  // namespace tensorkv
