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

absl::StatusOr<std::string> ReadAll(const std::string& path, std::istream& in) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return UsageError(absl::StrCat("--npy=", path, ": cannot open"));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Checks that the number, rounded, is finite, infinite or NaN as it was before.
absl::Status CheckFloatFill(DType dtype, double fill) {
  ASSIGN_OR_RETURN(const Tensor rounded, Tensor::Filled(dtype, Shape(), fill));
  ASSIGN_OR_RETURN(const Tensor wide, ConvertedTo(DType::kF64, rounded));
  const double stored = wide.elements<double>()[0];
  const bool is_same = std::isfinite(stored) == std::isfinite(fill) &&
                       std::isnan(stored) == std::isnan(fill);
  if (is_same) return absl::OkStatus();
  return UsageError(absl::StrCat("--fill=", fill, ": expected a number that ",
                                 NameOf(dtype), " holds"));
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

absl::StatusOr<Shape> ParseShape(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "[") != absl::ConsumeSuffix(&text, "]")) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected [ and ], or neither, got ", text));
  }
  std::vector<int64_t> dimensions;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    int64_t dimension;
    if (!absl::SimpleAtoi(part, &dimension)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected whole numbers as in 2,3, got \"", part, "\""));
    }
    dimensions.push_back(dimension);
  }
  return Shape::Create(dimensions);
}

absl::StatusOr<double> ParseFill(absl::string_view text) {
  double fill;
  // Numbers too large for a double are read as infinity, which has no digits.
  if (!absl::SimpleAtod(text, &fill) ||
      (std::isinf(fill) && absl::c_any_of(text, absl::ascii_isdigit))) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a number that f64 holds, got ", text));
  }
  return fill;
}

absl::StatusOr<ValueSource> ValueSource::Create(ValueFlags flags,
                                                std::istream& in) {
  if (flags.npy.has_value() == flags.fill.has_value()) {
    return UsageError("expected --fill=NUMBER or --npy=FILE, one of them");
  }
  if (!flags.npy.has_value()) return ValueSource(std::move(flags), {});
  if (flags.shape.has_value()) {
    return UsageError("--npy has its own shape: expected no other");
  }
  ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*flags.npy, in));
  absl::StatusOr<Tensor> tensor = ParseNpy(bytes);
  if (tensor.ok() && flags.dtype) tensor = ConvertedTo(*flags.dtype, *tensor);
  if (!tensor.ok()) {
    return AsUsageError(absl::StrCat("--npy=", *flags.npy), tensor.status());
  }
  flags.dtype = tensor->dtype();
  flags.shape = tensor->shape();
  return ValueSource(std::move(flags), *std::move(tensor));
}

absl::StatusOr<Tensor> ValueSource::Make(DType dtype,
                                         const Shape& shape) const {
  if (tensor_.has_value()) return *tensor_;
  dtype = flags_.dtype.value_or(dtype);
  RETURN_IF_ERROR(CheckFill(dtype, *flags_.fill));
  absl::StatusOr<Tensor> tensor =
      Tensor::Filled(dtype, flags_.shape.value_or(shape), *flags_.fill);
  if (absl::IsInvalidArgument(tensor.status())) {
    return AsUsageError(absl::StrCat("--fill=", *flags_.fill), tensor.status());
  }
  return tensor;
}

}  // namespace tensorkv
