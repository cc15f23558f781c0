#include "base/histogram_buckets.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// Prometheus takes bounds only if each is above the one before.
template <typename Bounds>
bool Rise(const Bounds& bounds) {
  return std::adjacent_find(std::begin(bounds), std::end(bounds),
                            std::greater_equal<>()) == std::end(bounds);
}

TEST(HistogramBucketsTest, LatencyBoundsRise) {
  EXPECT_TRUE(Rise(kLatencyBucketsSeconds));
}

TEST(HistogramBucketsTest, SizeBoundsRise) {
  EXPECT_TRUE(Rise(kSizeBucketsBytes));
}

}  // namespace
}  // namespace tensorkv
