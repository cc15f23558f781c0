#include "client/cli/float_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/cli/elements.h"

namespace tensorkv {
namespace {

// (-1)^is_negative · d.ddd · 10^exponent, no zeros at the end of the digits
// but for zero itself, which is "0".
struct Decimal {
  bool is_negative = false;
  std::string digits;
  int exponent = 0;
};

// Enough for any f32, and so for any smaller float.
constexpr int kMaxPrecision = 8;

template <typename... Precision>
std::string ToChars(auto value, Precision... precision) {
  char buffer[64];
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof(buffer), value,
                    std::chars_format::scientific, precision...);
  return std::string(buffer, end.ptr);
}

// The first precision whose text reads back as the same value of `dtype`.
std::string ShortestSmallFloat(double value, DType dtype) {
  for (int precision = 0; precision < kMaxPrecision; ++precision) {
    std::string text = ToChars(value, precision);
    if (RoundedTo(dtype, std::strtod(text.c_str(), nullptr)) == value) {
      return text;
    }
  }
  return ToChars(value, kMaxPrecision);
}

std::string ShortestScientific(double value, DType dtype) {
  if (dtype == DType::kF64) return ToChars(value);
  if (dtype == DType::kF32) return ToChars(static_cast<float>(value));
  return ShortestSmallFloat(value, dtype);
}

void DropTrailingZeros(std::string& text) {
  while (!text.empty() && text.back() == '0') text.pop_back();
}

Decimal Shortest(double value, DType dtype) {
  const std::string text = ShortestScientific(std::abs(value), dtype);
  const size_t exponent = text.find('e');
  Decimal decimal;
  decimal.is_negative = std::signbit(value);
  for (const char c : absl::string_view(text).substr(0, exponent)) {
    if (c != '.') decimal.digits += c;
  }
  DropTrailingZeros(decimal.digits);
  if (decimal.digits.empty()) decimal.digits = "0";
  decimal.exponent = std::atoi(text.c_str() + exponent + 1);
  return decimal;
}

// Digits after the point of the positional form.
int FractionDigits(const Decimal& decimal) {
  const int digits = static_cast<int>(decimal.digits.size());
  return std::max(0, digits - 1 - decimal.exponent);
}

// "123.", "0.00125": always a point, no zeros at the end.
std::string Positional(const Decimal& decimal) {
  std::string whole = decimal.digits;
  std::string fraction;
  if (decimal.exponent < 0) {
    fraction = std::string(-decimal.exponent - 1, '0') + whole;
    whole = "0";
  } else {
    const size_t whole_digits = decimal.exponent + 1;
    if (whole.size() < whole_digits) whole.resize(whole_digits, '0');
    fraction = whole.substr(whole_digits);
    whole.resize(whole_digits);
  }
  return absl::StrCat(decimal.is_negative ? "-" : "", whole, ".", fraction);
}

}  // namespace

std::string ScalarText(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double magnitude = std::abs(value);
  if (magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16)) {
    std::string text = Positional(Shortest(value, dtype));
    if (text.back() == '.') text += '0';
    return text;
  }
  const Decimal decimal = Shortest(value, dtype);
  const std::string fraction = decimal.digits.substr(1);
  return absl::StrFormat("%s%c%s%se%+03d", decimal.is_negative ? "-" : "",
                         decimal.digits[0], fraction.empty() ? "" : ".",
                         fraction, decimal.exponent);
}

std::string PositionalText(double value, DType dtype, int max_fraction) {
  const Decimal decimal = Shortest(value, dtype);
  const int fraction = FractionDigits(decimal);
  // In arrays, unlike scalars, NumPy writes whole numbers in full.
  if (fraction == 0) return absl::StrFormat("%#.0f", value);
  if (fraction <= max_fraction) return Positional(decimal);
  std::string text = absl::StrFormat("%.*f", max_fraction, value);
  DropTrailingZeros(text);
  return text;
}

int ScientificFraction(double value, DType dtype, int max_fraction) {
  const Decimal decimal = Shortest(value, dtype);
  if (static_cast<int>(decimal.digits.size()) - 1 <= max_fraction) {
    return static_cast<int>(decimal.digits.size()) - 1;
  }
  std::string text = absl::StrFormat("%#.*e", max_fraction, value);
  text.resize(text.find('e'));
  DropTrailingZeros(text);
  return static_cast<int>(text.size() - text.find('.') - 1);
}

std::string ScientificText(double value, int fraction, int exponent_digits) {
  const std::string text = absl::StrFormat("%#.*e", fraction, value);
  const size_t exponent = text.find('e');
  return absl::StrFormat("%se%c%0*d", text.substr(0, exponent),
                         text[exponent + 1], exponent_digits,
                         std::abs(std::atoi(text.c_str() + exponent + 1)));
}

}  // namespace tensorkv
