#include "client/cli/value_source.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/elements.h"
#include "client/cli/npy.h"
#include "client/cli/usage_error.h"

namespace tensorkv {
namespace {

// The next whole number is also what one that is no double is rounded to.
constexpr double kLargestExactWhole = 9007199254740991.0;

absl::StatusOr<Shape> ParseShape(absl::string_view text) {
  const std::string subject = absl::StrCat("--shape=", text);
  if (absl::ConsumePrefix(&text, "[") != absl::ConsumeSuffix(&text, "]")) {
    return UsageError(absl::StrCat(subject, ": expected [ and ], or neither"));
  }
  std::vector<int64_t> dimensions;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    int64_t dimension;
    if (!absl::SimpleAtoi(part, &dimension)) {
      return UsageError(absl::StrCat(
          subject, ": expected whole numbers as in 2,3, got \"", part, "\""));
    }
    dimensions.push_back(dimension);
  }
  absl::StatusOr<Shape> shape = Shape::Create(dimensions);
  if (!shape.ok()) return AsUsageError(subject, shape.status());
  return shape;
}

absl::StatusOr<std::string> ReadAll(const std::string& path, std::istream& in) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return UsageError(absl::StrCat("--npy=", path, ": cannot open"));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::StatusOr<std::optional<DType>> DTypeOf(const ValueFlags& flags) {
  if (!flags.dtype) return std::nullopt;
  const absl::StatusOr<DType> parsed = ParseDType(*flags.dtype);
  if (!parsed.ok()) return AsUsageError("--dtype", parsed.status());
  return *parsed;
}

absl::Status NotHeld(DType dtype, absl::string_view fill) {
  return UsageError(absl::StrCat("--fill=", fill, ": expected a number that ",
                                 NameOf(dtype), " holds"));
}

// Checks that the number, rounded, is finite, infinite or NaN as it was before.
absl::Status CheckFloatFill(DType dtype, double fill) {
  ASSIGN_OR_RETURN(const Tensor rounded, Tensor::Filled(dtype, Shape(), fill));
  ASSIGN_OR_RETURN(const Tensor wide, ConvertedTo(DType::kF64, rounded));
  const double stored = wide.elements<double>()[0];
  const bool is_same = std::isfinite(stored) == std::isfinite(fill) &&
                       std::isnan(stored) == std::isnan(fill);
  return is_same ? absl::OkStatus() : NotHeld(dtype, absl::StrCat(fill));
}

absl::Status CheckFill(DType dtype, double fill) {
  if (IsFloat(dtype)) return CheckFloatFill(dtype, fill);
  if (fill == std::trunc(fill) && std::abs(fill) <= kLargestExactWhole) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat("--fill=", fill, ": expected a whole number, ",
                                 "below 2^53 in magnitude, for ",
                                 NameOf(dtype)));
}

}  // namespace

absl::StatusOr<ValueSource> ValueSource::Create(const ValueFlags& flags,
                                                std::istream& in) {
  if (flags.npy.has_value() == flags.fill.has_value()) {
    return UsageError("expected --fill=NUMBER or --npy=FILE, one of them");
  }
  if (!flags.npy.has_value()) return FromFill(flags);
  if (flags.shape.has_value()) {
    return UsageError("--npy has its own shape: expected no other");
  }
  return FromNpy(flags, in);
}

absl::StatusOr<ValueSource> ValueSource::FromNpy(const ValueFlags& flags,
                                                 std::istream& in) {
  const std::string subject = absl::StrCat("--npy=", *flags.npy);
  ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*flags.npy, in));
  absl::StatusOr<Tensor> tensor = ParseNpy(bytes);
  ASSIGN_OR_RETURN(const std::optional<DType> dtype, DTypeOf(flags));
  if (tensor.ok() && dtype) tensor = ConvertedTo(*dtype, *tensor);
  if (!tensor.ok()) return AsUsageError(subject, tensor.status());
  return ValueSource(*std::move(tensor));
}

absl::StatusOr<ValueSource> ValueSource::FromFill(const ValueFlags& flags) {
  ASSIGN_OR_RETURN(const std::optional<DType> dtype, DTypeOf(flags));
  std::optional<Shape> shape;
  if (flags.shape.has_value()) {
    ASSIGN_OR_RETURN(shape, ParseShape(*flags.shape));
  }
  double fill;
  if (!absl::SimpleAtod(*flags.fill, &fill)) {
    return UsageError(
        absl::StrCat("--fill=", *flags.fill, ": expected a number"));
  }
  // Numbers too large for a double are read as infinity, which has no digits.
  if (std::isinf(fill) && absl::c_any_of(*flags.fill, absl::ascii_isdigit)) {
    return NotHeld(DType::kF64, *flags.fill);
  }
  return ValueSource(dtype, std::move(shape), fill);
}

absl::StatusOr<Tensor> ValueSource::Make(DType dtype,
                                         const Shape& shape) const {
  if (tensor_.has_value()) return *tensor_;
  const DType own_dtype = dtype_.value_or(dtype);
  RETURN_IF_ERROR(CheckFill(own_dtype, fill_));
  absl::StatusOr<Tensor> tensor =
      Tensor::Filled(own_dtype, shape_.value_or(shape), fill_);
  if (absl::IsInvalidArgument(tensor.status())) {
    return AsUsageError(absl::StrCat("--fill=", fill_), tensor.status());
  }
  return tensor;
}

}  // namespace tensorkv
