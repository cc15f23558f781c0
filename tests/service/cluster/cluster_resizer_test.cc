#include "service/cluster/cluster_resizer.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/cluster/placement_maker.h"

namespace tensorkv {
namespace cluster_resizer_test {

std::vector<ClusterServer> Servers(int first, int last) {
  std::vector<ClusterServer> servers;
  for (int i = first; i <= last; ++i) {
    servers.push_back({.name = absl::StrCat("s", i), .weight = 1.0 + i % 3});
  }
  return servers;
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
TEST(ClusterResizerTest, MovesLeadToOnePlacementInAnyOrder) {
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

TEST(ClusterResizerTest, PlacementWhoseServersAreWantedIsAsItIsToBe) {
  const ClusterPlacement placement = MakePlacement({}, Servers(1, 5), 64);

  const std::vector<std::string> wanted =
      OwnersWanted({.placement = placement, .wanted = placement.servers});

  for (uint32_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(wanted[i], placement.servers[placement.owners[i]].name);
  }
}

TEST(ClusterResizerTest, ServerLeavesThePlacementOnceItHasNothing) {
  ClusterReading reading = {.placement = {.version = 7,
                                          .servers = Servers(1, 3),
                                          .owners = {2, 1, 2}},
                            .wanted = Servers(2, 3)};

  const ClusterPlacement rest = WithoutLeft(reading);

  EXPECT_EQ(rest.version, 8u);
  EXPECT_EQ(rest.servers, Servers(2, 3));
  EXPECT_EQ(rest.owners, (std::vector<uint32_t>{1, 0, 1}));
  reading.placement.owners[0] = 0;
  EXPECT_EQ(WithoutLeft(reading), reading.placement);
}

}  // namespace cluster_resizer_test
}  // namespace tensorkv
