#include "service/cluster/placement_maker.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "xxhash.h"

namespace tensorkv {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

// A server has at most one partition more than another: 1/64 of its keys.
constexpr uint32_t kPartitionsPerServer = 64;
// So that a cluster that begins with few servers may grow.
constexpr uint32_t kFewestPartitions = 1024;
// So that a placement of thousands of servers takes seconds to make.
constexpr uint32_t kMostPartitions = 1 << 16;

uint32_t PartitionsFor(size_t num_servers) {
  const uint64_t wanted = std::bit_ceil(num_servers * kPartitionsPerServer);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(wanted, kFewestPartitions, kMostPartitions));
}

// Returns how many partitions each server gets: its share rounded down, and
// those that are left go to the largest remainders.
std::vector<uint32_t> SharesOf(const std::vector<ClusterServer>& servers,
                               uint32_t num_partitions) {
  double total = 0;
  for (const ClusterServer& server : servers) total += server.weight;
  std::vector<uint32_t> shares;
  std::vector<double> remainders;
  for (const ClusterServer& server : servers) {
    const double share = num_partitions * (server.weight / total);
    shares.push_back(static_cast<uint32_t>(share));
    remainders.push_back(share - shares.back());
  }
  std::vector<size_t> order(servers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return remainders[i]; });
  uint32_t left =
      num_partitions - std::accumulate(shares.begin(), shares.end(), 0u);
  for (size_t i = 0; left > 0; ++i, --left) ++shares[order[i % order.size()]];
  return shares;
}

// Returns how high a server ranks for a partition. The highest of several is
// each server's with a probability in proportion to its weight.
double RankOf(const ClusterServer& server, uint32_t partition) {
  const uint64_t hash =
      XXH3_64bits_withSeed(server.name.data(), server.name.size(), partition);
  const double uniform = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
  return -server.weight / std::log(uniform);
}

// Returns the index among `servers` of each server of `before`.
std::vector<uint32_t> IndicesIn(const std::vector<ClusterServer>& servers,
                                const ClusterPlacement& before) {
  std::map<std::string, uint32_t> indices;
  for (uint32_t i = 0; i < servers.size(); ++i) indices[servers[i].name] = i;
  std::vector<uint32_t> result;
  for (const ClusterServer& server : before.servers) {
    const auto found = indices.find(server.name);
    result.push_back(found == indices.end() ? kNobody : found->second);
  }
  return result;
}

// Returns which server keeps which partitions of `before`, which are taken from
// `shares`; kNobody for the rest.
std::vector<uint32_t> Kept(const std::vector<ClusterServer>& servers,
                           const ClusterPlacement& before,
                           std::vector<uint32_t>& shares) {
  const std::vector<uint32_t> indices = IndicesIn(servers, before);
  std::vector<uint32_t> owners;
  for (const uint32_t owner : before.owners) {
    uint32_t index = indices[owner];
    if (index != kNobody && shares[index] == 0) index = kNobody;
    if (index != kNobody) --shares[index];
    owners.push_back(index);
  }
  return owners;
}

uint32_t HighestRanked(const std::vector<ClusterServer>& servers,
                       const std::vector<uint32_t>& shares,
                       uint32_t partition) {
  uint32_t highest = kNobody;
  double highest_rank = -1;
  for (uint32_t i = 0; i < servers.size(); ++i) {
    if (shares[i] == 0) continue;
    const double rank = RankOf(servers[i], partition);
    if (rank <= highest_rank) continue;
    highest = i;
    highest_rank = rank;
  }
  return highest;
}

}  // namespace

ClusterPlacement MakePlacement(const ClusterPlacement& before,
                               std::vector<ClusterServer> servers,
                               uint32_t num_partitions) {
  if (!before.owners.empty()) {
    num_partitions = static_cast<uint32_t>(before.owners.size());
  } else if (num_partitions == 0) {
    num_partitions = PartitionsFor(servers.size());
  }
  std::vector<uint32_t> shares = SharesOf(servers, num_partitions);
  std::vector<uint32_t> owners = Kept(servers, before, shares);
  owners.resize(num_partitions, kNobody);
  for (uint32_t partition = 0; partition < num_partitions; ++partition) {
    uint32_t& owner = owners[partition];
    if (owner != kNobody) continue;
    owner = HighestRanked(servers, shares, partition);
    --shares[owner];
  }
  return {.cluster = before.cluster,
          .version = before.version + 1,
          .servers = std::move(servers),
          .owners = std::move(owners),
          .split_bytes = before.split_bytes};
}

}  // namespace tensorkv
