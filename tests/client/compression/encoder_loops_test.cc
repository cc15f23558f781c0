#include "client/compression/encoder_loops.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace encoder_loops_test {

constexpr NarrowFormat kFloatFormats[] = {
    NarrowFormat::kF16, NarrowFormat::kBF16, NarrowFormat::kF8E4M3FN,
    NarrowFormat::kF8E5M2};

// What the codes mean is tested by the encoders' model; here one instruction
// set is compared with another.

std::vector<float> Numbers(size_t count) {
  constexpr float kSpecial[] = {0.0f,    -0.0f,    0.5f,     -0.5f,   0x1p-149f,
                                -1e-40f, 65504.f,  65519.9f, -7e4f,   0x1p-14f,
                                448.f,   -57344.f, 3e38f,    -3.4e38f};
  std::mt19937 random(static_cast<uint32_t>(count));
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = random() % 3 == 0 ? kSpecial[random() % std::size(kSpecial)]
                               : normal(random);
  }
  return numbers;
}

template <typename T>
void Append(const std::vector<T>& elements, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(elements.data()),
               elements.size() * sizeof(T));
}

// All that the loops make of so many numbers.
std::string Results(const EncoderLoops& loops, size_t count) {
  std::string bytes;
  const std::vector<float> numbers = Numbers(count);
  const auto with = [&](auto write) {
    std::vector<float> elements = numbers;
    std::vector<uint8_t> out(2 * count);
    write(elements.data(), out.data());
    Append(elements, bytes);
    Append(out, bytes);
  };
  for (const float threshold : {0.5f, 1e-40f, 3e38f}) {
    with([&](float* elements, uint8_t* out) {
      loops.write_two_bit(threshold, elements, count, out);
    });
    with([&](float* elements, uint8_t* out) {
      loops.write_one_bit(-threshold, 0.25f, elements, count, out);
    });
  }
  for (const uint32_t bits : {2, 4, 8}) {
    for (const bool is_natural : {false, true}) {
      with([&](float* elements, uint8_t* out) {
        loops.write_dithered({bits, is_natural, 2.5f, 0x123456789}, elements,
                             count, out);
      });
    }
  }
  for (int format = 0; format < kNumNarrowFormats; ++format) {
    for (const float scale : {1.0f, 0.3f, 1e35f}) {
      with([&](float* elements, uint8_t* out) {
        loops.narrow[format](scale, elements, count, out);
      });
    }
    if (loops.widen[format] == nullptr) continue;
    with([&](float* elements, uint8_t* out) {
      for (size_t i = 0; i < 2 * count; ++i) out[i] = 37 * i;
      loops.widen[format](out, elements, count);
    });
    with([&](float* elements, uint8_t* out) {
      bytes += loops.cast[format](elements, count, out) ? 'y' : 'n';
    });
  }
  Append(std::vector<float>{loops.largest_magnitude(numbers.data(), count)},
         bytes);
  return bytes;
}

// All that the loops make of wide and narrow numbers, and of sums.
std::string OtherResults(const EncoderLoops& loops, size_t count) {
  std::string bytes;
  const std::vector<float> in = Numbers(count);
  std::vector<double> doubles(in.begin(), in.end());
  for (double& number : doubles) number *= 1.00000003;
  std::vector<float> rounded(count);
  loops.round(doubles.data(), rounded.data(), count);
  Append(rounded, bytes);
  std::vector<float> sum = Numbers(count + 1);
  std::vector<float> mean = Numbers(count + 2);
  for (int format = 0; format < kNumNarrowFormats; ++format) {
    if (loops.cast_sum[format] == nullptr) continue;
    std::vector<float> after(count);
    std::vector<uint8_t> out(2 * count);
    bytes += loops.cast_sum[format](in.data(), sum.data(), count, after.data(),
                                    out.data())
                 ? 'y'
                 : 'n';
    Append(after, bytes);
    Append(out, bytes);
  }
  bytes += loops.can_add(in.data(), sum.data(), count) ? 'y' : 'n';
  bytes += loops.can_add_with_momentum(in.data(), 0.9f, mean.data(), sum.data(),
                                       count)
               ? 'y'
               : 'n';
  bytes += loops.add(in.data(), sum.data(), count) ? 'y' : 'n';
  Append(sum, bytes);
  bytes +=
      loops.add_with_momentum(in.data(), 0.9f, mean.data(), sum.data(), count)
          ? 'y'
          : 'n';
  Append(mean, bytes);
  Append(sum, bytes);
  return bytes;
}

// What all bit patterns of the format become.
std::string Widened(const EncoderLoops& loops, NarrowFormat format) {
  const bool has_byte =
      format == NarrowFormat::kF8E4M3FN || format == NarrowFormat::kF8E5M2;
  std::vector<uint8_t> in;
  for (int bits = 0; bits < (has_byte ? 1 << 8 : 1 << 16); ++bits) {
    in.push_back(static_cast<uint8_t>(bits));
    if (!has_byte) in.push_back(static_cast<uint8_t>(bits >> 8));
  }
  std::vector<float> out(has_byte ? in.size() : in.size() / 2);
  loops.widen[static_cast<int>(format)](in.data(), out.data(), out.size());
  std::string bytes;
  Append(out, bytes);
  return bytes;
}

TEST(EncoderLoopsTest, EveryInstructionSetGivesTheSameBits) {
  const EncoderLoops& best = SupportedEncoderLoops();
  if (&best == PortableEncoderLoops()) GTEST_SKIP() << "no AVX2";
  for (const size_t count : {0, 1, 7, 8, 31, 32, 33, 100, 511, 513, 1031}) {
    EXPECT_EQ(Results(best, count), Results(*PortableEncoderLoops(), count))
        << best.instruction_set << ", " << count;
    EXPECT_EQ(OtherResults(best, count),
              OtherResults(*PortableEncoderLoops(), count))
        << best.instruction_set << ", " << count;
  }
  for (const NarrowFormat format : kFloatFormats) {
    EXPECT_EQ(Widened(best, format), Widened(*PortableEncoderLoops(), format))
        << static_cast<int>(format);
  }
}

TEST(EncoderLoopsTest, SumsAreWrittenOrOnlyLookedAt) {
  const std::vector<float> in = {1, 2, 3};
  for (const EncoderLoops* loops :
       {PortableEncoderLoops(), &SupportedEncoderLoops()}) {
    std::vector<float> mean = {1, 0, 0};
    std::vector<float> sum = {1, 1, 1};

    EXPECT_TRUE(loops->can_add(in.data(), sum.data(), 3));
    EXPECT_TRUE(loops->add(in.data(), sum.data(), 3));
    EXPECT_THAT(sum, ::testing::ElementsAre(2, 3, 4));
    EXPECT_TRUE(loops->can_add_with_momentum(in.data(), 0.5f, mean.data(),
                                             sum.data(), 3));
    EXPECT_TRUE(
        loops->add_with_momentum(in.data(), 0.5f, mean.data(), sum.data(), 3));
    EXPECT_THAT(mean, ::testing::ElementsAre(1.5, 2, 3));
    EXPECT_THAT(sum, ::testing::ElementsAre(3.75, 6, 8.5));
  }
}

TEST(EncoderLoopsTest, WhatIsNotFiniteIsFoundAtEveryPlace) {
  constexpr size_t kCount = 37;
  for (const EncoderLoops* loops :
       {PortableEncoderLoops(), &SupportedEncoderLoops()}) {
    for (size_t i = 0; i < kCount; ++i) {
      for (const float odd :
           {NAN, INFINITY, -INFINITY, std::numeric_limits<float>::max()}) {
        std::vector<float> in(kCount, 1.0f);
        std::vector<float> sum(kCount, std::numeric_limits<float>::max());
        std::vector<float> mean(kCount, 0.0f);
        in[i] = odd;

        EXPECT_FALSE(loops->can_add(in.data(), sum.data(), kCount));
        EXPECT_FALSE(loops->can_add_with_momentum(in.data(), 0.5f, mean.data(),
                                                  sum.data(), kCount));
        std::vector<float> other = sum;
        EXPECT_FALSE(loops->add(in.data(), other.data(), kCount));
        for (const NarrowFormat format : kFloatFormats) {
          uint16_t out[kCount];
          EXPECT_EQ(
              loops->cast[static_cast<int>(format)](in.data(), kCount, out),
              std::isfinite(odd))
              << static_cast<int>(format);
          float after[kCount];
          EXPECT_FALSE(loops->cast_sum[static_cast<int>(format)](
              in.data(), sum.data(), kCount, after, out));
        }
        EXPECT_FALSE(loops->add_with_momentum(in.data(), 0.5f, mean.data(),
                                              sum.data(), kCount));
      }
    }
  }
}

}  // namespace encoder_loops_test
}  // namespace tensorkv
