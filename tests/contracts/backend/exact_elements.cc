#include "tests/contracts/backend/exact_elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

namespace tensorkv::testing {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {5, 10};
    case DType::kBF16:
      return {8, 7};
    case DType::kF8E4M3FN:
      return {4, 3, /*has_infinity=*/false};
    case DType::kF8E5M2:
      return {5, 2};
    case DType::kF32:
      return {8, 23};
    default:
      return {11, 52};
  }
}

// The value of a pattern without sign.
double Decode(const Format& format, uint32_t bits) {
  const int exponent = bits >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int top = (1 << format.exponent_bits) - 1;
  if (exponent == top && format.has_infinity) {
    return mantissa == 0 ? HUGE_VAL : std::nan("");
  }
  if (!format.has_infinity && bits == format.sign_bit() - 1) {
    return std::nan("");
  }
  const int scale = std::max(exponent, 1) - format.bias();
  const int hidden = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return std::ldexp(mantissa + hidden, scale - format.mantissa_bits);
}

// All finite values from zero up; the index is the pattern.
std::vector<double> FiniteValues(DType dtype) {
  const Format format = FormatOf(dtype);
  std::vector<double> values;
  for (uint32_t bits = 0; bits < format.sign_bit(); ++bits) {
    const double value = Decode(format, bits);
    if (!std::isfinite(value)) break;
    values.push_back(value);
  }
  return values;
}

const std::vector<double>& ValuesOf(DType dtype) {
  static const auto* tables = new std::map<DType, std::vector<double>>{
      {DType::kF16, FiniteValues(DType::kF16)},
      {DType::kBF16, FiniteValues(DType::kBF16)},
      {DType::kF8E4M3FN, FiniteValues(DType::kF8E4M3FN)},
      {DType::kF8E5M2, FiniteValues(DType::kF8E5M2)}};
  return tables->at(dtype);
}

// The pattern without sign nearest to `magnitude`. One past the last finite
// one is infinity, or NaN in a format without.
uint32_t NearestPattern(DType dtype, double magnitude) {
  const std::vector<double>& values = ValuesOf(dtype);
  if (std::isnan(magnitude)) return FormatOf(dtype).sign_bit() - 1;
  const size_t above =
      std::lower_bound(values.begin(), values.end(), magnitude) -
      values.begin();
  if (above == 0) return 0;
  const double below_value = values[above - 1];
  const double above_value =
      above < values.size() ? values[above]
                            : below_value + (below_value - values[above - 2]);
  const double to_below = magnitude - below_value;
  const double to_above = above_value - magnitude;
  if (to_below == to_above) return above % 2 == 0 ? above : above - 1;
  return to_below < to_above ? above - 1 : above;
}

template <typename T>
T Read(const Tensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Write(Tensor& tensor, int64_t index, T value) {
  std::memcpy(tensor.mutable_data() + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

double FloatAt(const Tensor& tensor, int64_t index) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kF64) return Read<double>(tensor, index);
  if (dtype == DType::kF32) return Read<float>(tensor, index);
  const uint32_t bits = SizeOf(dtype) == 2 ? Read<uint16_t>(tensor, index)
                                           : Read<uint8_t>(tensor, index);
  const Format format = FormatOf(dtype);
  const double magnitude = Decode(format, bits & (format.sign_bit() - 1));
  return bits & format.sign_bit() ? -magnitude : magnitude;
}

int64_t IntegerAt(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype()) {
    case DType::kI8:
      return Read<int8_t>(tensor, index);
    case DType::kI16:
      return Read<int16_t>(tensor, index);
    case DType::kI32:
      return Read<int32_t>(tensor, index);
    case DType::kI64:
    case DType::kU64:
      return Read<int64_t>(tensor, index);
    case DType::kU16:
      return Read<uint16_t>(tensor, index);
    case DType::kU32:
      return Read<uint32_t>(tensor, index);
    default:
      return Read<uint8_t>(tensor, index);
  }
}

double RoundTo(DType dtype, double value) {
  if (dtype == DType::kF64) return value;
  if (dtype == DType::kF32) return static_cast<float>(value);
  const double magnitude =
      Decode(FormatOf(dtype), NearestPattern(dtype, std::abs(value)));
  return std::signbit(value) ? -magnitude : magnitude;
}

void SetFloat(Tensor& tensor, int64_t index, double value) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kF64) return Write<double>(tensor, index, value);
  if (dtype == DType::kF32) return Write<float>(tensor, index, value);
  const uint32_t sign = std::signbit(value) ? FormatOf(dtype).sign_bit() : 0;
  const uint32_t bits = sign | NearestPattern(dtype, std::abs(value));
  if (SizeOf(dtype) == 2) return Write<uint16_t>(tensor, index, bits);
  Write<uint8_t>(tensor, index, bits);
}

void SetInteger(Tensor& tensor, int64_t index, int64_t value) {
  if (tensor.dtype() == DType::kBool) value = value != 0;
  const size_t size = SizeOf(tensor.dtype());
  std::memcpy(tensor.mutable_data() + index * size, &value, size);
}

double HalfStep(DType dtype, double value) {
  const Format format = FormatOf(dtype);
  const int smallest = 1 - format.bias();
  const int exponent =
      value == 0 ? smallest : std::max(std::ilogb(value), smallest);
  return std::ldexp(0.5, exponent - format.mantissa_bits);
}

}  // namespace tensorkv::testing
