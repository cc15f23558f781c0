#include "client/cluster/cluster_target.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;

TEST(ClusterTargetTest, NamesServers) {
  EXPECT_THAT(ParseClusterTarget("cluster:a:1"),
              IsOkAndHolds(ElementsAre("a:1")));
  EXPECT_THAT(ParseClusterTarget("cluster:a:1,[::1]:2,unix:/x"),
              IsOkAndHolds(ElementsAre("a:1", "[::1]:2", "unix:/x")));
}

TEST(ClusterTargetTest, RefusesAServerWithoutName) {
  for (const char* target : {"cluster:", "cluster:,a:1", "cluster:a:1,"}) {
    EXPECT_THAT(ParseClusterTarget(target),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << target;
  }
}

TEST(ClusterTargetTest, LeavesOtherTargetsToGrpc) {
  EXPECT_FALSE(IsClusterTarget("cluster"));
  EXPECT_FALSE(IsClusterTarget("dns:cluster:1"));
  EXPECT_TRUE(IsClusterTarget("cluster:"));
}

}  // namespace
}  // namespace tensorkv
