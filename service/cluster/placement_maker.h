// Decides which server of a cluster is to own which partition.

#ifndef TENSORKV_SERVICE_CLUSTER_PLACEMENT_MAKER_H_
#define TENSORKV_SERVICE_CLUSTER_PLACEMENT_MAKER_H_

#include <cstdint>
#include <vector>

#include "contract/placement.h"

namespace tensorkv {

// Returns the placement of those servers that follows `before`, whose
// partitions it has; `num_partitions` where `before` has none, in the first
// one. 0 stands for a power of two from 1024 to 65536, at least 64 for each
// server where those are no more than 1024. Every server gets its share by
// weight, to within one partition. A partition stays where it is as long as
// that server is within its share; else it goes to the server that ranks
// highest for it, by weighted rendezvous hashing, of those that are not.
//
// A pure function: whoever makes it from the same gets the same. Takes time in
// proportion to partitions that move, times servers. REQUIRES: at least one
// server, weights above 0.
ClusterPlacement MakePlacement(const ClusterPlacement& before,
                               std::vector<ClusterServer> servers,
                               uint32_t num_partitions);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PLACEMENT_MAKER_H_
