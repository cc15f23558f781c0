#include "client/cluster/begun_joins.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

JoinRequest JoinInPlaceOf(uint64_t epoch,
                          const std::string& worker_name = "w") {
  JoinRequest request;
  request.set_namespace_("train");
  request.set_worker_name(worker_name);
  request.set_replaces_epoch(epoch);
  return request;
}

TEST(BegunJoinsTest, JoinReplacesTheOneThatHasNotComeToItsEnd) {
  BegunJoins joins;
  EXPECT_EQ(joins.ReplacedBy(JoinInPlaceOf(3)), 3u);

  joins.Begin(JoinInPlaceOf(3), 5);

  EXPECT_EQ(joins.ReplacedBy(JoinInPlaceOf(3)), 5u);
  EXPECT_EQ(joins.ReplacedBy(JoinInPlaceOf(0, "v")), 0u);
  joins.Complete(JoinInPlaceOf(3), {});
  EXPECT_EQ(joins.ReplacedBy(JoinInPlaceOf(3)), 3u);
}

TEST(BegunJoinsTest, ServersThatComeAndGoAreNoOtherIncarnation) {
  BegunJoins joins;
  const auto join = [&](std::map<std::string, uint64_t> incarnations) {
    return joins.Complete(JoinInPlaceOf(3), std::move(incarnations));
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
  const uint64_t before =
      joins.Complete(JoinInPlaceOf(3), {{"a", 10}, {"b", 20}});
  const uint64_t after =
      joins.Complete(JoinInPlaceOf(3), {{"a", 10}, {"b", 25}});

  EXPECT_EQ(joins.Complete(JoinInPlaceOf(3), {{"a", 10}, {"b", 20}}), before);
  EXPECT_EQ(joins.Complete(JoinInPlaceOf(3), {{"a", 10}, {"b", 25}}), after);
}

}  // namespace
}  // namespace tensorkv
