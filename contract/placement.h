// Says which server of a cluster owns which keys.
// proto/tensorkv/v1/cluster.proto explains the fields.

#ifndef TENSORKV_CONTRACT_PLACEMENT_H_
#define TENSORKV_CONTRACT_PLACEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorkv {

struct ClusterServer {
  std::string name;
  std::string address;
  double weight = 1;
  bool live = false;

  friend bool operator==(const ClusterServer&, const ClusterServer&) = default;
};

// Partitions that their owner does not have yet.
struct LostPartitions {
  // The server that had them last.
  std::string server;
  std::vector<uint32_t> partitions;
  // True if what they had is given up: they begin anew, without keys.
  bool given_up = false;

  friend bool operator==(const LostPartitions&,
                         const LostPartitions&) = default;
};

// A plain value. A placement without owners comes from a server that is in no
// cluster.
struct ClusterPlacement {
  std::string cluster;
  uint64_t version = 0;
  std::vector<ClusterServer> servers;
  // For each partition the index of its owner, below the number of servers.
  std::vector<uint32_t> owners;
  // Tensors of more bytes are in slices (contract/slices.h); 0: none is.
  uint64_t split_bytes = 0;
  std::vector<LostPartitions> lost;

  friend bool operator==(const ClusterPlacement&,
                         const ClusterPlacement&) = default;
};

// Returns the uid that the namespace "default" has at all servers of the
// cluster of that name from their start.
uint64_t DefaultUidOf(absl::string_view cluster);

// Returns how many partitions their owners do not have yet.
uint32_t NumLost(const ClusterPlacement& placement);

// Returns the partition, of `num_partitions`, into which a key of a namespace,
// or a slice of a key by its name, falls. The home of a namespace owns the
// partition of its empty key. REQUIRES: num_partitions > 0.
uint32_t PartitionOf(absl::string_view name_space, absl::string_view key,
                     uint32_t num_partitions);

// Returns the index of the server that owns a key, or a slice by its name.
// REQUIRES: the placement has owners.
uint32_t OwnerOf(const ClusterPlacement& placement,
                 absl::string_view name_space, absl::string_view key);

// Returns the partitions of the server of that index, in order.
std::vector<uint32_t> PartitionsOf(const ClusterPlacement& placement,
                                   uint32_t server);

// Returns the digest that tells of which partitions a share of a snapshot is
// (cluster.proto). `partitions` are in order.
uint64_t DigestOf(absl::Span<const uint32_t> partitions);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_PLACEMENT_H_
