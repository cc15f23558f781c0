#include "service/store/pull_waits.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(PullWaitsTest, TakesTheCallsOfOneKey) {
  PullWaits waits;
  const auto one = std::make_shared<PullCall>();
  const auto two = std::make_shared<PullCall>();
  const auto other = std::make_shared<PullCall>();
  waits.Park("a", one);
  waits.Park("a", two);
  waits.Park("b", other);

  EXPECT_THAT(waits.Take("a"), ElementsAre(one, two));

  EXPECT_EQ(waits.num_parked(), 1u);
  EXPECT_THAT(waits.Take("a"), IsEmpty());
}

TEST(PullWaitsTest, TakeAllLeavesNothing) {
  PullWaits waits;
  const auto one = std::make_shared<PullCall>();
  const auto two = std::make_shared<PullCall>();
  waits.Park("a", one);
  waits.Park("b", two);

  EXPECT_THAT(waits.TakeAll(), UnorderedElementsAre(one, two));

  EXPECT_EQ(waits.num_parked(), 0u);
}

TEST(PullWaitsTest, RemovesOneCall) {
  PullWaits waits;
  const auto one = std::make_shared<PullCall>();
  const auto two = std::make_shared<PullCall>();
  waits.Park("a", one);
  waits.Park("a", two);

  waits.Remove("a", one);
  waits.Remove("a", one);
  waits.Remove("b", two);

  EXPECT_EQ(waits.num_parked(), 1u);
  EXPECT_THAT(waits.Take("a"), ElementsAre(two));
}

}  // namespace
}  // namespace tensorkv
