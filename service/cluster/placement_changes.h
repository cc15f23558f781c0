// Decides which placement follows the present one.

#ifndef TENSORKV_SERVICE_CLUSTER_PLACEMENT_CHANGES_H_
#define TENSORKV_SERVICE_CLUSTER_PLACEMENT_CHANGES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "service/cluster/cluster_records.h"

namespace tensorkv {

// All are pure functions: every server makes the same of the same reading.

// Returns the server of that name; null if there is none.
const ClusterServer* FindServer(const std::vector<ClusterServer>& servers,
                                absl::string_view name);
// Returns the name of the partition's owner. REQUIRES: the placement has the
// partition.
const std::string& OwnerName(const ClusterPlacement& placement,
                             size_t partition);
// Returns whether the server owns all of `partitions`, be they restored or not.
bool OwnsAll(const ClusterPlacement& placement, absl::string_view server,
             const std::vector<uint32_t>& partitions);

// Returns the partitions that their owners have not restored yet.
std::set<uint32_t> MissingIn(const ClusterPlacement& placement);

// Returns for each partition the name of the server that is to own it; nothing
// if there is no placement. If the wanted servers are those of the placement,
// with the same weights, each partition stays where it is.
std::vector<std::string> OwnersWanted(const ClusterReading& reading);
// Returns how many partitions are to have another owner.
uint32_t NumToMove(const ClusterReading& reading);

// Returns the placement, of the next version, without the servers that own
// nothing and are not wanted; the same placement if there are none of these.
ClusterPlacement WithoutLeavers(const ClusterReading& reading);

// ResizedCluster is what a ResizeCluster makes of a reading.
struct ResizedCluster {
  ClusterPlacement placement;
  std::vector<ClusterServer> wanted;

  friend bool operator==(const ResizedCluster&,
                         const ResizedCluster&) = default;
};

// Returns the placement and the wanted servers after the request. In the
// placement others own the partitions of servers that the request calls lost,
// and are to restore them; all else stays where it is. Errors: NotFound ·
// InvalidArgument · FailedPrecondition; those of ResizeCluster.
absl::StatusOr<ResizedCluster> Resized(const ResizeClusterRequest& request,
                                       const ClusterReading& reading);

// Returns the request that declares the servers `lost` lost. Where no other
// server is wanted, it adds the registered servers of the placement, or if
// there are none of these, all that are registered.
ResizeClusterRequest TakeoverOf(const std::vector<std::string>& lost,
                                const ClusterReading& reading);

// Returns the placement, of the next version, in which the owners of
// `partitions`, which were to be restored, have them.
ClusterPlacement WithRestored(ClusterPlacement placement,
                              const std::vector<uint32_t>& partitions);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PLACEMENT_CHANGES_H_
