#include "client/internal/calls/key_order.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(KeyOrderTest, CallWithoutKeysMayRunAtOnce) {
  KeyOrder order;

  EXPECT_TRUE(order.Add(1, {}));
  EXPECT_THAT(order.Remove(1), IsEmpty());
}

TEST(KeyOrderTest, CallsOfOneKeyRunInTheirOrder) {
  KeyOrder order;

  EXPECT_TRUE(order.Add(1, {10}));
  EXPECT_FALSE(order.Add(2, {10}));
  EXPECT_FALSE(order.Add(3, {10}));

  EXPECT_THAT(order.Remove(1), ElementsAre(2));
  EXPECT_THAT(order.Remove(2), ElementsAre(3));
  EXPECT_THAT(order.Remove(3), IsEmpty());
}

TEST(KeyOrderTest, CallWaitsForAllItsKeys) {
  KeyOrder order;
  order.Add(1, {10});
  order.Add(2, {20});

  EXPECT_FALSE(order.Add(3, {10, 20}));

  EXPECT_THAT(order.Remove(2), IsEmpty());
  EXPECT_THAT(order.Remove(1), ElementsAre(3));
}

TEST(KeyOrderTest, CallThatWaitsHoldsUpThoseBehindIt) {
  KeyOrder order;
  order.Add(1, {10});
  order.Add(2, {10, 20});

  EXPECT_FALSE(order.Add(3, {20}));

  EXPECT_THAT(order.Remove(1), ElementsAre(2));
  EXPECT_THAT(order.Remove(2), ElementsAre(3));
}

TEST(KeyOrderTest, SeveralMayRunWhenOneEnds) {
  KeyOrder order;
  order.Add(1, {10, 20});
  order.Add(2, {10});
  order.Add(3, {20});

  EXPECT_THAT(order.Remove(1), UnorderedElementsAre(2, 3));
}

TEST(KeyOrderTest, CallWithAKeyTwiceDoesNotWaitForItself) {
  KeyOrder order;

  EXPECT_TRUE(order.Add(1, {10, 10}));
  EXPECT_FALSE(order.Add(2, {10, 10}));
  EXPECT_THAT(order.Remove(1), ElementsAre(2));
}

}  // namespace
}  // namespace tensorkv
