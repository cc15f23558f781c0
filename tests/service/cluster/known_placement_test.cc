#include "service/cluster/known_placement.h"

#include <chrono>
#include <string>

#include "contract/proto_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/cluster/two_servers.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::HasReason;
using testing::KeyOfServer;
using testing::StatusIs;
using testing::TwoServers;

TEST(KnownPlacementTest, ServerInNoClusterDescribesNothing) {
  const KnownPlacement known("");

  EXPECT_FALSE(known.is_in_cluster());
  EXPECT_EQ(known.view(), nullptr);
  EXPECT_OK(known.readiness());
  EXPECT_EQ(known.Describe().server_name(), "");
}

TEST(KnownPlacementTest, ServerWithoutPlacementIsNotReadyAndOwnsNothing) {
  const KnownPlacement known("a");

  EXPECT_THAT(known.readiness(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(known.view()->Check("", "k"),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(known.Describe().server_name(), "a");
}

TEST(KnownPlacementTest, RefusalSaysWhereTheKeyIs) {
  KnownPlacement known("");
  ASSERT_OK(known.Set(TwoServers(/*version=*/7), "a"));
  const std::string key = KeyOfServer("b");

  EXPECT_THAT(known.view()->Check("", key),
              HasReason(Reason::kWrongServer, {{"key", key},
                                               {"address", "b:1"},
                                               {"placement_version", "7"}}));
  EXPECT_OK(known.view()->Check("", KeyOfServer("a")));
}

TEST(KnownPlacementTest, ServerThatIsNotNamedOwnsNothing) {
  KnownPlacement known("");
  ASSERT_OK(known.Set(TwoServers(/*version=*/7), "c"));

  EXPECT_THAT(known.view()->Check("", KeyOfServer("a")),
              HasReason(Reason::kWrongServer));
  EXPECT_THAT(known.view()->Check("", KeyOfServer("b")),
              HasReason(Reason::kWrongServer));
}

TEST(KnownPlacementTest, OlderPlacementIsPassedOver) {
  KnownPlacement known("");
  ASSERT_OK(known.Set(TwoServers(/*version=*/7), "a"));
  ClusterPlacement same = TwoServers(/*version=*/7);
  same.servers[1].live = true;

  ASSERT_OK(known.Set(TwoServers(/*version=*/6), "a"));
  EXPECT_EQ(FromProto(known.Describe().placement()).value(), TwoServers(7));
  ASSERT_OK(known.Set(same, "a"));
  EXPECT_EQ(FromProto(known.Describe().placement()).value(), same);
}

TEST(KnownPlacementTest, PlacementWithoutOwnersOrServersIsRefused) {
  KnownPlacement known("");
  ClusterPlacement no_such_server = TwoServers(7);
  no_such_server.owners.back() = 2;

  EXPECT_THAT(known.Set({}, "a"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(known.Set(no_such_server, "a"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(known.is_in_cluster());
}

TEST(KnownPlacementTest, KeyThatIsNotRestoredYetIsNamed) {
  ClusterPlacement placement = TwoServers(/*version=*/7);
  const std::string key = KeyOfServer("a");
  placement.lost = {
      {.server = "lost", .partitions = {PartitionOf("", key, 8)}}};
  KnownPlacement known("");
  ASSERT_OK(known.Set(placement, "a"));

  EXPECT_THAT(
      known.view()->Check("", key),
      HasReason(Reason::kKeyNotRestored, {{"key", key}, {"server", "lost"}}));
  EXPECT_THAT(known.view()->CheckWhole(), HasReason(Reason::kKeyNotRestored));
  // What others have not restored is theirs to tell.
  ASSERT_OK(known.Set(placement, "b"));
  EXPECT_THAT(known.view()->Check("", key), HasReason(Reason::kWrongServer));
  EXPECT_OK(known.view()->CheckWhole());
}

TEST(KnownPlacementTest, ServerOwnsNothingAfterItsTime) {
  KnownPlacement known("a");
  ASSERT_OK(known.Set(TwoServers(/*version=*/7), "a"));
  const std::string key = KeyOfServer("a");
  EXPECT_OK(known.view()->Check("", key));

  known.OwnUntil(std::chrono::steady_clock::now());

  EXPECT_THAT(known.view()->Check("", key),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(known.view()->CheckWhole(),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(known.readiness(), StatusIs(absl::StatusCode::kUnavailable));
  known.OwnUntil(std::chrono::steady_clock::now() + std::chrono::hours(1));
  EXPECT_OK(known.view()->Check("", key));
}

}  // namespace
}  // namespace tensorkv
