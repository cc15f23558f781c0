#include "kernels/gradient_norm.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops/unpack.h"

namespace tensorkv {
namespace {

using ::testing::DoubleNear;

TensorView ViewOf(const std::vector<float>& elements) {
  return {DType::kF32, static_cast<int64_t>(elements.size()), elements.data()};
}

std::vector<float> RandomElements(size_t size) {
  std::mt19937 random(size);
  std::normal_distribution<float> numbers;
  std::vector<float> elements(size);
  for (float& each : elements) each = numbers(random);
  return elements;
}

template <typename Elements>
double Oracle(const Elements& elements) {
  long double sum = 0;
  for (const long double each : elements) sum += each * each;
  return static_cast<double>(std::sqrt(sum));
}

// Sizes on either side of what is summed at once.
TEST(GradientNormTest, IsThatOfLongDoubles) {
  for (const size_t size :
       {0, 1, 15, 16, 17, 1000, 65535, 65536, 65553, 200001}) {
    const std::vector<float> elements = RandomElements(size);
    const double expected = Oracle(elements);

    const GradientNorm found = NormOf(ViewOf(elements));

    EXPECT_TRUE(found.is_finite);
    EXPECT_THAT(found.norm, DoubleNear(expected, expected * 1e-14)) << size;
  }
}

// As they lie in what was received.
TEST(GradientNormTest, TakesElementsAtAnyAddress) {
  const std::vector<float> elements = RandomElements(100);
  std::vector<char> moved(elements.size() * sizeof(float) + 1);
  std::memcpy(moved.data() + 1, elements.data(), moved.size() - 1);

  EXPECT_EQ(NormOf({DType::kF32, 100, moved.data() + 1}).norm,
            NormOf(ViewOf(elements)).norm);
}

TEST(GradientNormTest, OneElementThatIsNotFiniteIsFoundAnywhere) {
  for (const float odd : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t place : {0, 16, 65535, 65536, 65550}) {
      std::vector<float> elements = RandomElements(65551);
      elements[place] = odd;
      EXPECT_FALSE(NormOf(ViewOf(elements)).is_finite) << place;
    }
  }
}

TEST(GradientNormTest, LargestElementsAreFinite) {
  const std::vector<float> floats(100, std::numeric_limits<float>::max());
  EXPECT_EQ(NormOf(ViewOf(floats)).norm, 10.0 * floats[0]);

  for (const auto& [element, norm] :
       {std::pair(1e160, 1e161), std::pair(-1e300, 1e301),
        std::pair(std::numeric_limits<double>::max(),
                  std::numeric_limits<double>::infinity())}) {
    const std::vector<double> doubles(100, element);
    const GradientNorm found = NormOf({DType::kF64, 100, doubles.data()});
    EXPECT_TRUE(found.is_finite);
    EXPECT_DOUBLE_EQ(found.norm, norm);
  }
}

// All elements of what a payload decodes to, one by one.
std::vector<float> Decoded(const Packing& packing, const char* payload) {
  std::vector<float> elements(packing.num_elements);
  for (uint64_t i = 0; i < packing.num_elements; ++i) {
    elements[i] = ops::UnpackElement<float>(packing, payload, i);
  }
  return elements;
}

TEST(GradientNormTest, PackedContributionsHaveTheNormOfWhatTheyDecodeTo) {
  constexpr uint64_t kSize = 1000;
  alignas(8) char payload[4096];
  std::mt19937 random(1);
  for (char& byte : payload) byte = static_cast<char>(random() % 100);
  auto* const words = reinterpret_cast<uint32_t*>(payload);
  const Packing packings[] = {
      {.kind = PackingKind::kTwoBit, .scale = 0.3f, .num_elements = kSize},
      {.kind = PackingKind::kOneBit, .scale = 0.3f, .num_elements = kSize},
      {.kind = PackingKind::kDithering,
       .bits = 4,
       .scale = 3,
       .num_elements = kSize},
      {.kind = PackingKind::kDithering,
       .bits = 8,
       .is_natural = true,
       .scale = 3,
       .num_elements = kSize},
      {.kind = PackingKind::kRandomK,
       .element_dtype = static_cast<uint8_t>(DType::kF32),
       .block_size = 7,
       .seed = 5,
       .num_elements = kSize},
      {.kind = PackingKind::kTopK,
       .element_dtype = static_cast<uint8_t>(DType::kBF16),
       .count = 10,
       .num_elements = kSize},
      {.kind = PackingKind::kBlocks,
       .element_dtype = static_cast<uint8_t>(DType::kI8),
       .block_size = 100,
       .num_elements = kSize}};
  for (Packing packing : packings) {
    const bool has_scales = packing.kind == PackingKind::kBlocks;
    const bool has_indices = packing.kind == PackingKind::kTopK;
    for (uint32_t i = 0; i < 10 && (has_scales || has_indices); ++i) {
      const float scale = 0.5f + static_cast<float>(i);
      words[i] = has_indices ? i * 97 : std::bit_cast<uint32_t>(scale);
    }
    const std::vector<float> plain = Decoded(packing, payload);
    const double expected = Oracle(plain);
    EXPECT_THAT(NormOf(packing, payload).norm,
                DoubleNear(expected, expected * 1e-14));

    Scale(0.25, packing, payload);  // a power of two, which is exact
    const std::vector<float> scaled = Decoded(packing, payload);
    for (size_t i = 0; i < kSize; ++i) {
      ASSERT_EQ(scaled[i], plain[i] * 0.25f)
          << static_cast<int>(packing.kind) << " " << i;
    }
  }
}

TEST(GradientNormTest, ScalesStayAboveZero) {
  Packing packing = {.kind = PackingKind::kOneBit,
                     .scale = std::numeric_limits<float>::denorm_min(),
                     .num_elements = 8};
  char payload = 0;

  Scale(1e-30, packing, &payload);

  EXPECT_GT(packing.scale, 0);
}

}  // namespace
}  // namespace tensorkv
