// Decides which server of a cluster is to own which partition.

#ifndef TENSORKV_SERVICE_CLUSTER_PLACEMENT_MAKER_H_
#define TENSORKV_SERVICE_CLUSTER_PLACEMENT_MAKER_H_

#include <cstdint>
#include <vector>

#include "contract/placement.h"

namespace tensorkv {

// Returns the placement, of the next version, of `servers` after `before`. It
// has the partitions of `before`; if that has none, `num_partitions`, where 0
// stands for a power of two from 1024 to 65536, at least 64 for each of up to
// 1024 servers. Every server gets its share by weight, to within one partition.
// A partition stays where it is unless its server has more than its share; else
// it goes, by weighted rendezvous hashing, to the server that ranks highest for
// it of those with less than their share.
//
// A pure function: the same arguments give the same placement on every server.
// Takes time in proportion to partitions that move, times servers. REQUIRES: at
// least one server, weights above 0.
ClusterPlacement MakePlacement(const ClusterPlacement& before,
                               std::vector<ClusterServer> servers,
                               uint32_t num_partitions);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PLACEMENT_MAKER_H_
