#include "service/cluster/placement_maker.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace placement_maker_test {

constexpr int kNumClusters = 30;

// Up to 40 servers, with weights of 1, or of 0.5 to 4.
std::vector<ClusterServer> RandomServers(std::mt19937& random) {
  std::vector<ClusterServer> servers(1 + random() % 40);
  const bool is_even = random() % 2 == 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    servers[i].name = absl::StrCat("server", i);
    if (!is_even) {
      servers[i].weight = 0.5 + static_cast<double>(random() % 8) / 2;
    }
  }
  return servers;
}

// How many partitions each server has.
std::vector<uint32_t> CountsOf(const ClusterPlacement& placement) {
  std::vector<uint32_t> counts(placement.servers.size());
  for (const uint32_t owner : placement.owners) ++counts[owner];
  return counts;
}

void ExpectFairShares(const ClusterPlacement& placement) {
  double total = 0;
  for (const ClusterServer& server : placement.servers) total += server.weight;
  const std::vector<uint32_t> counts = CountsOf(placement);
  for (size_t i = 0; i < counts.size(); ++i) {
    const double share = static_cast<double>(placement.owners.size()) *
                         placement.servers[i].weight / total;
    EXPECT_LE(std::abs(counts[i] - share), 1.0) << placement.servers[i].name;
  }
}

int NumMoved(const ClusterPlacement& before, const ClusterPlacement& after) {
  int num_moved = 0;
  for (size_t i = 0; i < before.owners.size(); ++i) {
    num_moved += before.servers[before.owners[i]].name !=
                 after.servers[after.owners[i]].name;
  }
  return num_moved;
}

TEST(PlacementMakerTest, EveryServerGetsItsShareByWeight) {
  std::mt19937 random(/*seed=*/3);
  for (int i = 0; i < kNumClusters; ++i) {
    const uint32_t num_partitions = 40 + random() % 2000;

    const ClusterPlacement placement =
        MakePlacement({.cluster = "c"}, RandomServers(random), num_partitions);

    EXPECT_EQ(placement.cluster, "c");
    EXPECT_EQ(placement.version, 1u);
    EXPECT_EQ(placement.owners.size(), num_partitions);
    ExpectFairShares(placement);
  }
}

TEST(PlacementMakerTest, DefaultIsEvenForAsManyServersAsThereAre) {
  const std::pair<size_t, size_t> kExpected[] = {
      {1, 1024}, {16, 1024}, {17, 2048}, {100, 8192}};
  for (const auto& [num_servers, num_partitions] : kExpected) {
    std::vector<ClusterServer> servers(num_servers);
    for (size_t i = 0; i < num_servers; ++i) {
      servers[i].name = absl::StrCat("server", i);
    }

    EXPECT_THAT(MakePlacement({}, servers, 0).owners,
                ::testing::SizeIs(num_partitions));
  }
}

TEST(PlacementMakerTest, JoiningServerMovesNoMoreThanItsShareAndAFifth) {
  std::mt19937 random(/*seed=*/5);
  for (int i = 0; i < kNumClusters; ++i) {
    std::vector<ClusterServer> servers = RandomServers(random);
    for (ClusterServer& server : servers) server.weight = 1;
    const ClusterPlacement before = MakePlacement({}, servers, 4096);
    servers.insert(servers.begin() + random() % servers.size(),
                   {.name = "joins"});

    const ClusterPlacement after = MakePlacement(before, servers, 1);

    EXPECT_EQ(after.version, 2u);
    ExpectFairShares(after);
    EXPECT_LE(NumMoved(before, after),
              1.2 * 4096 / static_cast<double>(servers.size()));
  }
}

TEST(PlacementMakerTest, PartitionsOfAServerThatLeavesAloneMove) {
  std::mt19937 random(/*seed=*/7);
  for (int i = 0; i < kNumClusters; ++i) {
    std::vector<ClusterServer> servers = RandomServers(random);
    servers.push_back({.name = "leaves"});
    for (ClusterServer& server : servers) server.weight = 1;
    const ClusterPlacement before = MakePlacement({}, servers, 4096);
    servers.pop_back();

    const ClusterPlacement after = MakePlacement(before, servers, 1);

    ExpectFairShares(after);
    EXPECT_EQ(NumMoved(before, after), CountsOf(before).back());
  }
}

TEST(PlacementMakerTest, WhatIsSplitStays) {
  const ClusterPlacement before =
      MakePlacement({.split_bytes = 5}, {{.name = "a"}}, 8);
  EXPECT_EQ(before.split_bytes, 5u);
  EXPECT_EQ(MakePlacement(before, {{.name = "b"}}, 8).split_bytes, 5u);
}

TEST(PlacementMakerTest, SamePlacementFromTheSame) {
  std::mt19937 random(/*seed=*/9);
  const std::vector<ClusterServer> servers = RandomServers(random);

  EXPECT_EQ(MakePlacement({}, servers, 1024), MakePlacement({}, servers, 1024));
}

}  // namespace placement_maker_test
}  // namespace tensorkv
