#include "tensor/float_formats.h"

#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::IsEmpty;

// A format as its specification gives it, and the functions under test.
struct Format {
  std::string name;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // else only the largest pattern is special, a NaN
  float (*decode)(uint32_t bits);
  uint32_t (*encode)(float value);

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t infinity() const { return sign() - (1u << mantissa_bits); }
  // What values too large become.
  uint32_t overflow() const { return has_infinity ? infinity() : sign() - 1; }
  uint32_t largest() const { return overflow() - 1; }
  bool IsNan(uint32_t magnitude) const {
    return has_infinity ? magnitude > infinity() : magnitude == sign() - 1;
  }
};

const Format kFormats[] = {
    {"f16", 5, 10, true, [](uint32_t bits) { return F16ToF32(bits); },
     [](float value) -> uint32_t { return F32ToF16(value); }},
    {"bf16", 8, 7, true, [](uint32_t bits) { return BF16ToF32(bits); },
     [](float value) -> uint32_t { return F32ToBF16(value); }},
    {"f8e4m3fn", 4, 3, false, [](uint32_t bits) { return F8E4M3ToF32(bits); },
     [](float value) -> uint32_t { return F32ToF8E4M3(value); }},
    {"f8e5m2", 5, 2, true, [](uint32_t bits) { return F8E5M2ToF32(bits); },
     [](float value) -> uint32_t { return F32ToF8E5M2(value); }}};

// The value of a magnitude by the definition, as if every pattern were a
// number.
double NumberOf(const Format& format, uint32_t magnitude) {
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  const int last_bit = 1 - format.bias() - format.mantissa_bits;
  if (exponent == 0) return std::ldexp(mantissa, last_bit);
  return std::ldexp(mantissa + (1 << format.mantissa_bits),
                    last_bit + exponent - 1);
}

// The magnitude nearest to `value`, which is positive or zero, by the
// definition.
uint32_t NearestTo(const Format& format, double value) {
  if (value > 2 * NumberOf(format, format.largest())) return format.overflow();
  const int smallest = 1 - format.bias();
  const int exponent =
      value == 0 ? smallest : std::max(std::ilogb(value), smallest);
  const double last_bits =
      std::nearbyint(std::ldexp(value, format.mantissa_bits - exponent));
  const uint32_t magnitude =
      static_cast<uint32_t>(last_bits) +
      (static_cast<uint32_t>(exponent - smallest) << format.mantissa_bits);
  return std::min(magnitude, format.overflow());
}

float Below(float value) { return std::nextafter(value, -INFINITY); }
float Above(float value) { return std::nextafter(value, INFINITY); }

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

class FloatFormatTest : public ::testing::TestWithParam<Format> {
 protected:
  // Notes `value` as wrong if it or its negative is not encoded as
  // `magnitude`.
  void ExpectEncoded(float value, uint32_t magnitude) {
    if (format.encode(value) != magnitude ||
        format.encode(-value) != (magnitude | format.sign())) {
      wrong.push_back(value);
    }
  }

  const Format& format = GetParam();
  std::vector<float> wrong;
};

TEST_P(FloatFormatTest, EveryPatternDecodesToItsValue) {
  for (uint32_t magnitude = 0; magnitude <= format.largest(); ++magnitude) {
    const float expected = NumberOf(format, magnitude);
    const float value = format.decode(magnitude);
    const float negative = format.decode(magnitude | format.sign());
    if (value != expected || negative != -expected || std::signbit(value) ||
        !std::signbit(negative)) {
      wrong.push_back(expected);
    }
  }

  EXPECT_THAT(wrong, IsEmpty());
}

TEST_P(FloatFormatTest, EveryNumberRoundTrips) {
  for (uint32_t magnitude = 0; magnitude <= format.largest(); ++magnitude) {
    ExpectEncoded(format.decode(magnitude), magnitude);
  }

  EXPECT_THAT(wrong, IsEmpty());
}

TEST_P(FloatFormatTest, InfinityRoundTripsWhereThereIsOne) {
  ExpectEncoded(INFINITY, format.overflow());

  EXPECT_THAT(wrong, IsEmpty());
  const float decoded = format.decode(format.overflow());
  EXPECT_EQ(std::isinf(decoded), format.has_infinity);
  EXPECT_EQ(std::isnan(decoded), !format.has_infinity);
}

TEST_P(FloatFormatTest, EveryNanPatternStaysNanOfItsSign) {
  std::vector<uint32_t> bad;
  for (uint32_t bits = 0; bits < 2 * format.sign(); ++bits) {
    if (!format.IsNan(bits % format.sign())) continue;
    const float value = format.decode(bits);
    const uint32_t back = format.encode(value);
    if (!std::isnan(value) || std::signbit(value) != (bits >= format.sign()) ||
        !format.IsNan(back % format.sign()) ||
        (back & format.sign()) != (bits & format.sign())) {
      bad.push_back(bits);
    }
  }

  EXPECT_THAT(bad, IsEmpty());
}

TEST_P(FloatFormatTest, EveryQuietNanRoundTrips) {
  std::vector<uint32_t> bad;
  const uint32_t quiet = 1u << (format.mantissa_bits - 1);
  for (uint32_t bits = 0; bits < 2 * format.sign(); ++bits) {
    const bool is_quiet = format.IsNan(bits % format.sign()) && (bits & quiet);
    if (is_quiet && format.encode(format.decode(bits)) != bits) {
      bad.push_back(bits);
    }
  }

  EXPECT_THAT(bad, IsEmpty());
}

TEST_P(FloatFormatTest, NanOfAnyPayloadStaysNan) {
  for (uint32_t payload : {0x000001u, 0x3fffffu, 0x400000u, 0x7fffffu}) {
    for (uint32_t sign : {0u, 0x80000000u}) {
      const uint32_t bits =
          format.encode(FromBits(sign | 0x7f800000 | payload));
      EXPECT_TRUE(format.IsNan(bits % format.sign())) << payload;
      EXPECT_EQ(bits >= format.sign(), sign != 0) << payload;
    }
  }
}

// Between the largest number and overflow lies a midpoint too: the next value
// if the exponents went on.
TEST_P(FloatFormatTest, MidpointsRoundToEvenAndNeighboursToNearest) {
  for (uint32_t low = 0; low <= format.largest(); ++low) {
    const uint32_t high = low + 1;
    const float midpoint = (NumberOf(format, low) + NumberOf(format, high)) / 2;
    ExpectEncoded(Below(midpoint), low);
    ExpectEncoded(midpoint, low % 2 == 0 ? low : high);
    ExpectEncoded(Above(midpoint), high);
  }

  EXPECT_THAT(wrong, IsEmpty());
}

TEST_P(FloatFormatTest, NeighboursOfNumbersRoundBack) {
  for (uint32_t magnitude = 1; magnitude <= format.largest(); ++magnitude) {
    const float value = NumberOf(format, magnitude);
    ExpectEncoded(Below(value), magnitude);
    ExpectEncoded(Above(value), magnitude);
  }

  EXPECT_THAT(wrong, IsEmpty());
}

TEST_P(FloatFormatTest, ValuesTooLargeOverflow) {
  ExpectEncoded(FLT_MAX, format.overflow());
  ExpectEncoded(2 * NumberOf(format, format.largest()), format.overflow());

  EXPECT_THAT(wrong, IsEmpty());
}

TEST_P(FloatFormatTest, SampleOfAllFloatsRoundsToNearest) {
  constexpr uint32_t kStride = 10007;  // prime, so that all low bits occur
  for (uint32_t bits = 0; bits < 0x7f800000; bits += kStride) {
    const float value = FromBits(bits);
    ExpectEncoded(value, NearestTo(format, value));
  }

  EXPECT_THAT(wrong, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, FloatFormatTest, ::testing::ValuesIn(kFormats),
                         [](const auto& format) { return format.param.name; });

TEST(F8E4M3Test, RoundsUpTo464DownToTheLargestValue) {
  EXPECT_EQ(F8E4M3ToF32(F32ToF8E4M3(464)), 448);
  EXPECT_TRUE(std::isnan(F8E4M3ToF32(F32ToF8E4M3(Above(464)))));
}

TEST(FloatFormatsTest, ConvertAtCompileTime) {
  static_assert(F16ToF32(0x3c00) == 1 && F32ToF16(65504) == 0x7bff);
  static_assert(BF16ToF32(0x3f80) == 1 && F32ToBF16(-2) == 0xc000);
  static_assert(F8E4M3ToF32(0x38) == 1 && F32ToF8E4M3(448) == 0x7e);
  static_assert(F8E5M2ToF32(0x3c) == 1 && F32ToF8E5M2(57344) == 0x7b);
  static_assert(F32ToF16(INFINITY) == 0x7c00 && F32ToF8E4M3(1e9f) == 0x7f);
}

}  // namespace
}  // namespace tensorkv
