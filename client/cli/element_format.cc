#include "client/cli/element_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/cli/elements.h"
#include "client/cli/float_text.h"

namespace tensorkv {
namespace {

// NumPy's default options.
constexpr int kPrecision = 8;
constexpr double kLargestPositional = 1e8;
constexpr double kSmallestPositional = 1e-4;
constexpr double kLargestPositionalRatio = 1000;

// What matters about the floats that are shown.
struct FloatSurvey {
  std::vector<double> finite;
  bool has_nonfinite = false;
  bool has_negative_infinity = false;
};

FloatSurvey SurveyOf(const Tensor& tensor, const std::vector<int64_t>& shown) {
  FloatSurvey survey;
  for (const int64_t index : shown) {
    const double value = FloatAt(tensor, index);
    if (std::isfinite(value)) {
      survey.finite.push_back(value);
    } else {
      survey.has_nonfinite = true;
      survey.has_negative_infinity |= value < 0;
    }
  }
  return survey;
}

bool NeedsExponent(const std::vector<double>& finite) {
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  for (const double value : finite) {
    if (value == 0) continue;
    largest = std::max(largest, std::abs(value));
    smallest = std::min(smallest, std::abs(value));
  }
  if (largest == 0) return false;
  return largest >= kLargestPositional || smallest < kSmallestPositional ||
         largest / smallest > kLargestPositionalRatio;
}

// Widths of the parts before and after the decimal point.
struct Columns {
  size_t before = 0;
  size_t after = 0;

  void Cover(absl::string_view text) {
    const size_t point = text.find('.');
    before = std::max(before, point);
    after = std::max(after, text.size() - point - 1);
  }
  // "nan", "inf" and "-inf" stand in the whole width, the point included.
  void CoverWord(size_t size) {
    if (size > after + 1) before = std::max(before, size - after - 1);
  }
  size_t width() const { return before + 1 + after; }
};

void CoverNonfinite(const FloatSurvey& survey, Columns& columns) {
  if (!survey.has_nonfinite) return;
  columns.CoverWord(survey.has_negative_infinity ? 4 : 3);
}

std::string PadLeft(absl::string_view text, size_t width) {
  if (text.size() >= width) return std::string(text);
  return absl::StrCat(std::string(width - text.size(), ' '), text);
}

// Aligns the decimal points.
std::string Aligned(absl::string_view text, const Columns& columns) {
  const size_t point = text.find('.');
  const size_t fraction = text.size() - point - 1;
  return absl::StrCat(std::string(columns.before - point, ' '), text,
                      std::string(columns.after - fraction, ' '));
}

ElementFormat PositionalFormat(const Tensor& tensor,
                               const FloatSurvey& survey) {
  Columns columns;
  for (const double value : survey.finite) {
    columns.Cover(PositionalText(value, tensor.dtype(), kPrecision));
  }
  CoverNonfinite(survey, columns);
  return [tensor, columns](int64_t index) {
    const double value = FloatAt(tensor, index);
    if (!std::isfinite(value)) {
      return PadLeft(ScalarText(value, tensor.dtype()), columns.width());
    }
    return Aligned(PositionalText(value, tensor.dtype(), kPrecision), columns);
  };
}

ElementFormat ScientificFormat(const Tensor& tensor,
                               const FloatSurvey& survey) {
  int fraction = 0;
  int exponent_digits = 2;
  for (const double value : survey.finite) {
    fraction = std::max(fraction,
                        ScientificFraction(value, tensor.dtype(), kPrecision));
    const std::string text = ScientificText(value, 0, exponent_digits);
    exponent_digits = static_cast<int>(text.size() - text.find('e')) - 2;
  }
  Columns columns;
  for (const double value : survey.finite) {
    columns.Cover(ScientificText(value, fraction, exponent_digits));
  }
  CoverNonfinite(survey, columns);
  return [tensor, columns, fraction, exponent_digits](int64_t index) {
    const double value = FloatAt(tensor, index);
    if (!std::isfinite(value)) {
      return PadLeft(ScalarText(value, tensor.dtype()), columns.width());
    }
    return PadLeft(ScientificText(value, fraction, exponent_digits),
                   columns.width());
  };
}

ElementFormat FloatFormat(const Tensor& tensor,
                          const std::vector<int64_t>& shown) {
  const FloatSurvey survey = SurveyOf(tensor, shown);
  return NeedsExponent(survey.finite) ? ScientificFormat(tensor, survey)
                                      : PositionalFormat(tensor, survey);
}

ElementFormat IntegerFormat(const Tensor& tensor,
                            const std::vector<int64_t>& shown) {
  size_t width = 0;
  for (const int64_t index : shown) {
    width = std::max(width, IntegerText(tensor, index).size());
  }
  return [tensor, width](int64_t index) {
    return PadLeft(IntegerText(tensor, index), width);
  };
}

absl::string_view BoolText(const Tensor& tensor, int64_t index) {
  return IntegerAt(tensor, index) != 0 ? "True" : "False";
}

}  // namespace

ElementFormat MakeElementFormat(const Tensor& tensor,
                                const std::vector<int64_t>& shown) {
  if (IsFloat(tensor.dtype())) return FloatFormat(tensor, shown);
  if (tensor.dtype() != DType::kBool) return IntegerFormat(tensor, shown);
  return
      [tensor](int64_t index) { return PadLeft(BoolText(tensor, index), 5); };
}

std::string ScalarElementText(const Tensor& tensor) {
  if (IsFloat(tensor.dtype())) {
    return ScalarText(FloatAt(tensor, 0), tensor.dtype());
  }
  if (tensor.dtype() == DType::kBool) return std::string(BoolText(tensor, 0));
  return IntegerText(tensor, 0);
}

}  // namespace tensorkv
