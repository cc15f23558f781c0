// What placements of large clusters cost, and how even they are: a row of
// docs/cluster.md for each number of partitions.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/harness/clocks.h"
#include "contract/placement.h"
#include "contract/proto_codec.h"
#include "service/cluster/placement_maker.h"
#include "tensorkv/v1/cluster.pb.h"

namespace tensorkv::bench {
namespace {

constexpr int kNumServers = 1000;
constexpr int kNumKeys = 10'000'000;

double SecondsSince(absl::Duration start) {
  return absl::ToDoubleSeconds(SteadyTime() - start);
}

std::vector<ClusterServer> Servers(int num_servers) {
  std::vector<ClusterServer> servers;
  for (int i = 0; i < num_servers; ++i) {
    servers.push_back(
        {.name = absl::StrCat("server-", i),
         .address = absl::StrCat("10.0.", i / 256, ".", i % 256, ":7363")});
  }
  return servers;
}

// How much more than the mean, in per cent, the server with the most keys has.
double WorstKeys(const ClusterPlacement& placement,
                 const std::vector<std::string>& keys, double& lookup_ns) {
  std::vector<int> counts(placement.servers.size());
  const absl::Duration start = SteadyTime();
  for (const std::string& key : keys) ++counts[OwnerOf(placement, "", key)];
  lookup_ns = SecondsSince(start) / kNumKeys * 1e9;
  const int most = *std::ranges::max_element(counts);
  return (static_cast<double>(most) * kNumServers / kNumKeys - 1) * 100;
}

double MovedPartitions(const ClusterPlacement& before) {
  const ClusterPlacement after =
      MakePlacement(before, Servers(kNumServers + 1), 0);
  double moved = 0;
  for (size_t i = 0; i < before.owners.size(); ++i) {
    moved += before.owners[i] != after.owners[i];
  }
  return moved / static_cast<double>(before.owners.size());
}

void PrintRow(uint32_t num_partitions, const std::vector<std::string>& keys) {
  const absl::Duration start = SteadyTime();
  const ClusterPlacement placement =
      MakePlacement({}, Servers(kNumServers), num_partitions);
  const double made = SecondsSince(start);
  double lookup_ns = 0;
  const double worst = WorstKeys(placement, keys, lookup_ns);
  v1::ClusterPlacement proto;
  ToProto(placement, &proto);
  std::printf("| %zu | %.1f %% | %.2f/n | %zu | %.0f | %.2f |\n",
              placement.owners.size(), worst,
              MovedPartitions(placement) * kNumServers, proto.ByteSizeLong(),
              lookup_ns, made);
}

void Run() {
  std::vector<std::string> keys;
  for (int i = 0; i < kNumKeys; ++i) {
    keys.push_back(absl::StrCat("layer", i / 1000, ".weight", i % 1000));
  }
  std::puts(
      "| partitions | most keys above the mean | moved by a joining server | "
      "bytes | ns per lookup | s to make |\n|---|---|---|---|---|---|");
  // 0 is the default.
  for (const uint32_t num_partitions : {1024, 16384, 0, 262144}) {
    PrintRow(num_partitions, keys);
  }
}

}  // namespace
}  // namespace tensorkv::bench

int main() { tensorkv::bench::Run(); }
