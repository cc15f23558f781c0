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

// Returns the one of that name; null if there is none.
const ClusterServer* FindServer(const std::vector<ClusterServer>& servers,
                                absl::string_view name);
const std::string& OwnerName(const ClusterPlacement& placement,
                             size_t partition);
// Returns whether all of `partitions` are that server's.
bool OwnsAll(const ClusterPlacement& placement, absl::string_view server,
             const std::vector<uint32_t>& partitions);

// Returns which partitions their owners do not have yet.
std::set<uint32_t> MissingIn(const ClusterPlacement& placement);

// Returns where the partitions are to be: by the name of its owner, for each.
// Partitions of a placement whose servers are wanted, and whose weights are as
// they were, stay where they are.
std::vector<std::string> OwnersWanted(const ClusterReading& reading);
// Returns how many partitions are not where they are to be.
uint32_t NumToMove(const ClusterReading& reading);

// Returns the placement without the servers that have nothing and are not
// wanted, of the next version; the same one if there are none.
ClusterPlacement WithoutLeft(const ClusterReading& reading);

// ResizedCluster is what a ResizeCluster makes of a reading.
struct ResizedCluster {
  ClusterPlacement placement;
  std::vector<ClusterServer> wanted;

  friend bool operator==(const ResizedCluster&,
                         const ResizedCluster&) = default;
};

// The partitions of servers that are lost are others' in the placement, which
// do not have them yet; all else stays where it is.
// Errors: NotFound · InvalidArgument · FailedPrecondition; those of
// ResizeCluster.
absl::StatusOr<ResizedCluster> Resized(const ResizeClusterRequest& request,
                                       const ClusterReading& reading);

// Returns the request that deals with servers that have not come back. Where no
// other one was to have the keys, the servers that have some take over, if any
// is registered, and else all that are.
ResizeClusterRequest TakeoverOf(const std::vector<std::string>& lost,
                                const ClusterReading& reading);

// Returns the placement, of the next version, in which the owners of
// `partitions`, which were to be restored, have them.
ClusterPlacement WithRestored(ClusterPlacement placement,
                              const std::vector<uint32_t>& partitions);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PLACEMENT_CHANGES_H_
