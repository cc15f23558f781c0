#include "client/cluster/begun_joins.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

const JoinRequest kJoin = {
    .name_space = "train", .worker_name = "w", .replaces_epoch = 3};

TEST(BegunJoinsTest, JoinReplacesTheOneThatHasNotComeToItsEnd) {
  BegunJoins joins;
  EXPECT_EQ(joins.ReplacedBy(kJoin), 3u);

  joins.Begin(kJoin, 5);

  EXPECT_EQ(joins.ReplacedBy(kJoin), 5u);
  EXPECT_EQ(joins.ReplacedBy({.name_space = "train", .worker_name = "v"}), 0u);
  joins.Complete(kJoin, {});
  EXPECT_EQ(joins.ReplacedBy(kJoin), 3u);
}

TEST(BegunJoinsTest, ServersThatComeAndGoAreNoOtherIncarnation) {
  BegunJoins joins;
  const auto join = [&](std::map<std::string, uint64_t> incarnations) {
    return joins.Complete(kJoin, std::move(incarnations));
  };
  const uint64_t first = join({{"a", 10}, {"b", 20}});

  EXPECT_EQ(first, 30u);
  EXPECT_EQ(join({{"a", 10}, {"b", 20}, {"c", 30}}), first);
  EXPECT_EQ(join({{"b", 20}, {"c", 30}}), first);
  EXPECT_NE(join({{"b", 21}, {"c", 30}}), first);
}

// Two workers of one client may join at the same time.
TEST(BegunJoinsTest, IncarnationsAreToldAsTheyWereSeen) {
  BegunJoins joins;
  const uint64_t before = joins.Complete(kJoin, {{"a", 10}, {"b", 20}});
  const uint64_t after = joins.Complete(kJoin, {{"a", 10}, {"b", 25}});

  EXPECT_EQ(joins.Complete(kJoin, {{"a", 10}, {"b", 20}}), before);
  EXPECT_EQ(joins.Complete(kJoin, {{"a", 10}, {"b", 25}}), after);
}

}  // namespace
}  // namespace tensorkv
