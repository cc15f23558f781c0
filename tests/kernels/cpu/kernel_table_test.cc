#include "kernels/cpu/kernel_table.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/supported_kernels.h"
#include "tensor/float_formats.h"

namespace tensorkv {
namespace {

class KernelTableTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const FormatKernels<float>& f32(FloatFormat format) {
    return GetParam()->f32.formats[static_cast<int>(format)];
  }

  // Loads every pattern and compares with the conversion one by one.
  template <typename Bits>
  void ExpectLoads(FloatFormat format, std::function<float(Bits)> widen) {
    std::vector<Bits> patterns(size_t{std::numeric_limits<Bits>::max()} + 1);
    for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = i;
    std::vector<float> loaded(patterns.size());
    f32(format).load(patterns.data(), loaded.data(), patterns.size());
    for (size_t i = 0; i < patterns.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(loaded[i]),
                std::bit_cast<uint32_t>(widen(patterns[i])))
          << "pattern " << i;
    }
  }

  // Stores floats around every pattern of the upper half, NaNs included, and
  // compares likewise.
  template <typename Bits>
  void ExpectStores(FloatFormat format, std::function<Bits(float)> narrow) {
    std::vector<float> values;
    for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
      for (uint32_t lower : {0x0000, 0x0fff, 0x1000, 0x1001, 0x8000, 0xffff}) {
        values.push_back(std::bit_cast<float>(upper << 16 | lower));
      }
    }
    std::vector<Bits> stored(values.size());
    f32(format).store(values.data(), stored.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(stored[i], narrow(values[i]))
          << std::hex << std::bit_cast<uint32_t>(values[i]);
    }
  }
};

TEST_P(KernelTableTest, ConvertsF16AsTheElementConversions) {
  ExpectLoads<uint16_t>(FloatFormat::kF16, F16ToF32);
  ExpectStores<uint16_t>(FloatFormat::kF16, F32ToF16);
}

TEST_P(KernelTableTest, ConvertsBF16AsTheElementConversions) {
  ExpectLoads<uint16_t>(FloatFormat::kBF16, BF16ToF32);
  ExpectStores<uint16_t>(FloatFormat::kBF16, F32ToBF16);
}

TEST_P(KernelTableTest, ConvertsF8AsTheElementConversions) {
  ExpectLoads<uint8_t>(FloatFormat::kF8E4M3FN, F8E4M3ToF32);
  ExpectStores<uint8_t>(FloatFormat::kF8E4M3FN, F32ToF8E4M3);
  ExpectLoads<uint8_t>(FloatFormat::kF8E5M2, F8E5M2ToF32);
  ExpectStores<uint8_t>(FloatFormat::kF8E5M2, F32ToF8E5M2);
}

TEST_P(KernelTableTest, LeavesWhatLiesBehindTheArrays) {
  for (size_t count = 0; count < 40; ++count) {
    const std::vector<uint16_t> in(count, 0x3c00);
    std::vector<float> sum(count + 1, 7);
    f32(FloatFormat::kF16).load(in.data(), sum.data(), count);
    const void* const addends[] = {in.data()};
    f32(FloatFormat::kF16).add(addends, 1, sum.data(), count);
    EXPECT_EQ(sum.back(), 7) << count;

    std::vector<uint16_t> out(count + 1, 7);
    f32(FloatFormat::kF16).store(sum.data(), out.data(), count);
    EXPECT_EQ(out.back(), 7) << count;
    EXPECT_EQ(out.front(), count == 0 ? 7 : 0x4000) << count;
  }
}

TEST_P(KernelTableTest, SumsInfinitiesToNan) {
  const std::vector<float> infinite(20, INFINITY);
  std::vector<float> sum(20, -INFINITY);

  const void* const addends[] = {infinite.data()};
  f32(FloatFormat::kF32).add(addends, 1, sum.data(), sum.size());

  EXPECT_TRUE(std::isnan(sum.front()));
  EXPECT_TRUE(std::isnan(sum.back()));
}

TEST_P(KernelTableTest, AddsFromTheLeft) {
  // 2^24 + 1 + 1 is 2^24 in f32, 2^24 + (1 + 1) is not.
  const std::vector<float> ones(20, 1);
  const void* const addends[] = {ones.data(), ones.data(), ones.data(),
                                 ones.data()};
  for (size_t num_addends = 1; num_addends <= kMaxAddends; ++num_addends) {
    std::vector<float> large(20, 0x1p24f);
    std::vector<float> small(20, 0.5f);
    f32(FloatFormat::kF32).add(addends, num_addends, large.data(), 20);
    f32(FloatFormat::kF32).add(addends, num_addends, small.data(), 20);
    EXPECT_EQ(large, std::vector<float>(20, 0x1p24f));
    EXPECT_EQ(small, std::vector<float>(20, num_addends + 0.5f));
  }
}

// Whatever is drawn with them, and wherever an array begins.
template <typename T>
void ExpectNoise(const ElementKernels<T>& kernels) {
  constexpr size_t kCount = 300;
  const ops::Sgld<T> sgld = {
      .half_rate = 0,
      .weight_decay = 0,
      .deviation = 1,
      .noise = {.seed = 0x123456789abcdef0, .update_count = 0xfedcba9876543210},
      .gradient = {.rescale = 1, .clip = 1}};
  const std::vector<T> zeros(kCount);
  for (const uint64_t first : {0ull, 5ull, 127ull, 0x40000000020ull, ~511ull}) {
    std::vector<T> noise(kCount);
    kernels.steps[static_cast<int>(RuleKind::kSgld)](&sgld,
                                                     {.new_w = noise.data(),
                                                      .w = zeros.data(),
                                                      .g = zeros.data(),
                                                      .first = first},
                                                     kCount);
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(noise[i], sgld.noise(first + i)) << first << " " << i;
    }
  }
}

TEST_P(KernelTableTest, DrawsTheNoiseOfEachElement) {
  ExpectNoise(GetParam()->f32);
  ExpectNoise(GetParam()->f64);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, KernelTableTest,
                         ::testing::ValuesIn(SupportedKernels()),
                         [](const auto& info) {
                           return std::string(info.param->instruction_set);
                         });

}  // namespace
}  // namespace tensorkv
