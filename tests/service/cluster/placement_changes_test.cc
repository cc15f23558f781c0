#include "service/cluster/placement_changes.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cluster/placement_maker.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace placement_changes_test {

std::vector<ClusterServer> Servers(int first, int last) {
  std::vector<ClusterServer> servers;
  for (int i = first; i <= last; ++i) {
    servers.push_back({.name = absl::StrCat("s", i), .weight = 1.0 + i % 3});
  }
  return servers;
}

struct Names {
  std::vector<std::string> add = {};
  std::vector<std::string> remove = {};
  std::vector<std::string> lost = {};
};

ResizeClusterRequest RequestOf(const Names& names) {
  ResizeClusterRequest request;
  request.mutable_add()->Add(names.add.begin(), names.add.end());
  request.mutable_remove()->Add(names.remove.begin(), names.remove.end());
  request.mutable_lost()->Add(names.lost.begin(), names.lost.end());
  return request;
}

// The placement once that partition is where it is to be.
ClusterPlacement After(ClusterPlacement placement, uint32_t partition,
                       const std::string& owner) {
  const auto found =
      std::ranges::find(placement.servers, owner, &ClusterServer::name);
  placement.owners[partition] =
      static_cast<uint32_t>(found - placement.servers.begin());
  if (found == placement.servers.end()) {
    placement.servers.push_back({.name = owner});
  }
  return placement;
}

// Servers look anew after each move, in whatever order they come.
TEST(PlacementChangesTest, MovesLeadToOnePlacementInAnyOrder) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    ClusterReading reading = {
        .placement = MakePlacement({}, Servers(1, 4), 100),
        .wanted = Servers(2, 6)};
    const std::vector<std::string> wanted = OwnersWanted(reading);
    std::vector<uint32_t> partitions;
    for (uint32_t i = 0; i < wanted.size(); ++i) partitions.push_back(i);
    std::ranges::shuffle(partitions, std::mt19937(seed));

    for (const uint32_t partition : partitions) {
      reading.placement =
          After(reading.placement, partition, wanted[partition]);
      ASSERT_EQ(OwnersWanted(reading), wanted);
    }
  }
}

TEST(PlacementChangesTest, PlacementWhoseServersAreWantedIsAsItIsToBe) {
  const ClusterPlacement placement = MakePlacement({}, Servers(1, 5), 64);

  const std::vector<std::string> wanted =
      OwnersWanted({.placement = placement, .wanted = placement.servers});

  for (uint32_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(wanted[i], placement.servers[placement.owners[i]].name);
  }
}

TEST(PlacementChangesTest, ServerLeavesThePlacementOnceItHasNothing) {
  ClusterReading reading = {.placement = {.version = 7,
                                          .servers = Servers(1, 3),
                                          .owners = {2, 1, 2}},
                            .wanted = Servers(2, 3)};

  const ClusterPlacement rest = WithoutLeavers(reading);

  EXPECT_EQ(rest.version, 8u);
  EXPECT_EQ(rest.servers, Servers(2, 3));
  EXPECT_EQ(rest.owners, (std::vector<uint32_t>{1, 0, 1}));
  reading.placement.owners[0] = 0;
  EXPECT_EQ(WithoutLeavers(reading), reading.placement);
}

// Servers "s1" to "s4" have all; those of `live` are registered.
ClusterReading ReadingOf(const std::vector<std::string>& live) {
  ClusterReading reading = {.placement = MakePlacement({}, Servers(1, 4), 100)};
  reading.wanted = reading.placement.servers;
  for (const std::string& name : live) {
    reading.registrations[name] = {.lease = 1, .revision = 1};
  }
  return reading;
}

std::vector<uint32_t> PartitionsOf(const ClusterPlacement& placement,
                                   const std::string& server) {
  std::vector<uint32_t> partitions;
  for (uint32_t i = 0; i < placement.owners.size(); ++i) {
    if (OwnerName(placement, i) == server) partitions.push_back(i);
  }
  return partitions;
}

TEST(PlacementChangesTest, OthersAreToRestoreWhatALostServerHad) {
  const ClusterReading before = ReadingOf({"s1", "s3", "s4"});
  const std::vector<uint32_t> lost = PartitionsOf(before.placement, "s2");

  ASSERT_OK_AND_ASSIGN(const ResizedCluster after,
                       Resized(RequestOf({.lost = {"s2"}}), before));

  EXPECT_EQ(after.placement.version, before.placement.version + 1);
  EXPECT_EQ(FindServer(after.placement.servers, "s2"), nullptr);
  EXPECT_EQ(FindServer(after.wanted, "s2"), nullptr);
  EXPECT_THAT(after.placement.lost, ::testing::ElementsAre(LostPartitions{
                                        .server = "s2", .partitions = lost}));
  for (const std::string name : {"s1", "s3", "s4"}) {
    EXPECT_TRUE(
        OwnsAll(after.placement, name, PartitionsOf(before.placement, name)));
  }
  // They are where they are to be: nothing moves afterwards.
  EXPECT_EQ(NumToMove({.placement = after.placement, .wanted = after.wanted}),
            0u);
}

TEST(PlacementChangesTest, WhatALostServerHadNotRestoredIsStillOfTheFormer) {
  ClusterReading reading = ReadingOf({"s1", "s4"});
  const std::vector<uint32_t> first = PartitionsOf(reading.placement, "s2");
  const std::vector<uint32_t> second = PartitionsOf(reading.placement, "s3");
  ASSERT_OK_AND_ASSIGN(ResizedCluster after,
                       Resized(RequestOf({.lost = {"s2"}}), reading));
  reading.placement = after.placement;
  reading.wanted = after.wanted;

  ASSERT_OK_AND_ASSIGN(after, Resized(RequestOf({.lost = {"s3"}}), reading));

  EXPECT_THAT(after.placement.lost,
              ::testing::ElementsAre(
                  LostPartitions{.server = "s2", .partitions = first},
                  LostPartitions{.server = "s3", .partitions = second}));
  EXPECT_THAT(MissingIn(after.placement),
              ::testing::SizeIs(first.size() + second.size()));
  EXPECT_TRUE(PartitionsOf(after.placement, "s3").empty());
}

TEST(PlacementChangesTest, WhatIsRestoredIsMissingNoMore) {
  const ClusterReading reading = ReadingOf({"s1", "s3", "s4"});
  ASSERT_OK_AND_ASSIGN(const ResizedCluster resized,
                       Resized(RequestOf({.lost = {"s2"}}), reading));
  ClusterPlacement placement = resized.placement;

  for (const std::string name : {"s1", "s3", "s4"}) {
    placement = WithRestored(placement, PartitionsOf(placement, name));
  }

  EXPECT_TRUE(placement.lost.empty());
  EXPECT_EQ(placement.owners, resized.placement.owners);
  EXPECT_EQ(placement.version, resized.placement.version + 3);
}

TEST(PlacementChangesTest, WhatIsGivenUpIsMarked) {
  ClusterReading reading = ReadingOf({"s1", "s3", "s4"});
  ASSERT_OK_AND_ASSIGN(const ResizedCluster lost,
                       Resized(RequestOf({.lost = {"s2"}}), reading));
  reading.placement = lost.placement;
  reading.wanted = lost.wanted;

  ResizeClusterRequest give_up = RequestOf({.lost = {"s2"}});
  give_up.set_give_up(true);
  ASSERT_OK_AND_ASSIGN(const ResizedCluster after, Resized(give_up, reading));

  EXPECT_TRUE(after.placement.lost[0].given_up);
  EXPECT_EQ(after.placement.owners, lost.placement.owners);
  EXPECT_EQ(after.placement.version, lost.placement.version + 1);
}

// Whoever was not to have keys takes over all the same.
TEST(PlacementChangesTest, LastServerThatWasWantedIsLostToTheOthers) {
  ClusterReading reading = ReadingOf({"s2", "s7"});
  reading.servers = {{.name = "s2", .weight = 1}, {.name = "s7", .weight = 1}};
  EXPECT_TRUE(TakeoverOf({"s1"}, reading).add().empty())
      << "others are to have the keys";

  reading.wanted = Servers(1, 1);
  EXPECT_THAT(TakeoverOf({"s1"}, reading).add(), ::testing::ElementsAre("s2"));
  reading.placement = MakePlacement({}, Servers(1, 1), 100);
  const ResizeClusterRequest takeover = TakeoverOf({"s1"}, reading);
  EXPECT_THAT(takeover.add(), ::testing::ElementsAre("s2", "s7"));

  ASSERT_OK_AND_ASSIGN(const ResizedCluster resized,
                       Resized(takeover, reading));
  EXPECT_EQ(resized.placement.servers.size(), 2u);
  EXPECT_EQ(resized.wanted.size(), 2u);
}

TEST(PlacementChangesTest, RequestsThatCannotBeAreRefused) {
  const ClusterReading reading = ReadingOf({"s1", "s2"});

  EXPECT_TRUE(absl::IsFailedPrecondition(
      Resized(RequestOf({.lost = {"s2"}}), reading).status()));
  EXPECT_TRUE(
      absl::IsNotFound(Resized(RequestOf({.lost = {"s9"}}), reading).status()));
  EXPECT_TRUE(absl::IsNotFound(
      Resized(RequestOf({.remove = {"s9"}}), reading).status()));
  EXPECT_TRUE(
      absl::IsNotFound(Resized(RequestOf({.add = {"s9"}}), reading).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Resized(RequestOf({.remove = {"s1", "s2"}, .lost = {"s3", "s4"}}),
              reading)
          .status()));
}

}  // namespace placement_changes_test
}  // namespace tensorkv
