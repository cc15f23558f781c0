#include "kernels/expression/element_math.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

#include "gtest/gtest.h"

namespace tensorkv::expression {
namespace {

// What the results are compared with has more bits than they have.
template <typename T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

// In units of the last place of the exact result.
template <typename T>
double Error(T actual, Wider<T> exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : HUGE_VAL;
  if (std::isinf(rounded) || std::isinf(actual)) {
    // Rounding may go either way at the border.
    const bool is_close = actual == rounded ||
                          std::abs(rounded) == std::numeric_limits<T>::max() ||
                          std::abs(actual) == std::numeric_limits<T>::max();
    return is_close ? 0 : HUGE_VAL;
  }
  const int exponent = std::max(exact == 0 ? -10000 : std::ilogb(exact),
                                std::numeric_limits<T>::min_exponent - 1);
  const Wider<T> unit =
      std::ldexp(Wider<T>(1), exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs(actual - exact) / unit);
}

// Numbers of every size, and as many of common ones.
template <typename T>
class Numbers {
 public:
  T Next() {
    using Bits = typename FloatFacts<T>::Bits;
    const uint64_t drawn = random_();
    if (drawn % 2 == 0) return FromBits<T>(static_cast<Bits>(random_()));
    const T common = std::ldexp(T(drawn >> 12), int(drawn % 23) - 64);
    return drawn & 0x800 ? -common : common;
  }

 private:
  std::mt19937_64 random_{20};
};

template <typename T>
class ElementMathTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ElementMathTest, Types);

constexpr int kNumTries = 100'000;

TYPED_TEST(ElementMathTest, FunctionsAreAccurate) {
  using T = TypeParam;
  Numbers<T> numbers;
  double exp_error = 0;
  double log_error = 0;
  double pow_error = 0;
  for (int i = 0; i < kNumTries; ++i) {
    const T x = numbers.Next();
    const T y = i % 3 == 0 ? std::trunc(numbers.Next()) : numbers.Next();
    exp_error = std::max(exp_error, Error(Exp(x), std::exp(Wider<T>(x))));
    log_error = std::max(log_error, Error(Log(x), std::log(Wider<T>(x))));
    pow_error = std::max(pow_error,
                         Error(Pow(x, y), std::pow(Wider<T>(x), Wider<T>(y))));
    // A power that is a common number, whatever the base.
    const T power =
        static_cast<T>(std::log(std::abs(y)) / std::log(std::abs(x)));
    pow_error = std::max(
        pow_error, Error(Pow(std::abs(x), power),
                         std::pow(Wider<T>(std::abs(x)), Wider<T>(power))));
  }
  EXPECT_LT(exp_error, 1);
  EXPECT_LT(log_error, 1);
  EXPECT_LT(pow_error, 1);
}

TYPED_TEST(ElementMathTest, SpecialValuesAreThoseOfTheLibrary) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  const T values[] = {T(0),
                      T(-0.0),
                      T(1),
                      T(-1),
                      T(0.5),
                      T(-0.5),
                      T(2),
                      T(3),
                      T(-2),
                      T(-3),
                      T(2.5),
                      Limits::infinity(),
                      -Limits::infinity(),
                      Limits::quiet_NaN(),
                      Limits::max(),
                      Limits::lowest(),
                      Limits::min(),
                      Limits::denorm_min(),
                      T(1e6) + 1,
                      -T(1e6) - 1};
  const auto expect_same = [](T actual, T expected, T x, T y) {
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << x << " " << y;
    } else if (expected == 0 || std::isinf(expected)) {
      EXPECT_EQ(BitsOf(actual), BitsOf(expected)) << x << " " << y;
    } else {
      EXPECT_LT(Error(actual, Wider<T>(expected)), 2) << x << " " << y;
    }
  };
  for (const T x : values) {
    expect_same(Exp(x), std::exp(x), x, 0);
    expect_same(Log(x), std::log(x), x, 0);
    for (const T y : values) expect_same(Pow(x, y), std::pow(x, y), x, y);
  }
}

TYPED_TEST(ElementMathTest, ComparisonsPassNaNOn) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Min(nan, T(1))));
  EXPECT_TRUE(std::isnan(Min(T(1), nan)));
  EXPECT_TRUE(std::isnan(Max(nan, T(1))));
  EXPECT_TRUE(std::isnan(Max(T(1), nan)));
  EXPECT_TRUE(std::isnan(Sign(nan)));
  EXPECT_EQ(Min(T(1), T(2)), 1);
  EXPECT_EQ(Max(T(1), T(2)), 2);
  EXPECT_EQ(Sign(T(-3)), -1);
  EXPECT_EQ(Sign(T(3)), 1);
  EXPECT_TRUE(std::signbit(Sign(T(-0.0))));
  EXPECT_EQ(Absolute(T(-3)), 3);
}

}  // namespace
}  // namespace tensorkv::expression
