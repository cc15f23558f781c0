#include "bench/gpu/sizes.h"

#include "gtest/gtest.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(SizesTest, AFullRunUpdatesAGigabyteOfF32) {
  EXPECT_GE(Sizes().update_elements * sizeof(float), 1'000'000'000);
  EXPECT_EQ(FitTo(75 * kGiB, Sizes()).update_elements, Sizes().update_elements);
}

TEST(SizesTest, AQuickRunIsSmaller) {
  EXPECT_LT(QuickSizes().update_elements, Sizes().update_elements);
  EXPECT_LT(QuickSizes().staged_bytes, Sizes().staged_bytes);
  EXPECT_EQ(QuickSizes().small_bytes, Sizes().small_bytes);
}

TEST(SizesTest, TensorsAreHalvedUntilTwelveOfThemFit) {
  const Sizes sizes = FitTo(8 * kGiB, Sizes());

  EXPECT_EQ(sizes.update_elements, Sizes().update_elements / 2);
  EXPECT_EQ(sizes.staged_bytes, Sizes().staged_bytes / 2);
  EXPECT_EQ(sizes.num_small, Sizes().num_small);
}

TEST(SizesTest, SomethingIsLeftForEverySmallDevice) {
  const Sizes sizes = FitTo(0, Sizes());

  EXPECT_GT(sizes.update_elements, 0);
  EXPECT_GT(sizes.staged_bytes, 0);
}

}  // namespace
}  // namespace tensorkv::bench::gpu
