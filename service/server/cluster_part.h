// Does what a server does as one of a cluster.

#ifndef TENSORKV_SERVICE_SERVER_CLUSTER_PART_H_
#define TENSORKV_SERVICE_SERVER_CLUSTER_PART_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "service/cluster/cluster_member.h"
#include "service/cluster/cluster_resizer.h"
#include "service/cluster/known_placement.h"
#include "service/cluster/partition_receiver.h"
#include "service/cluster/partition_restorer.h"
#include "service/cluster/peer_calls.h"
#include "service/metrics/readings.h"
#include "service/server/server_options.h"
#include "service/store/partition_moves.h"

namespace tensorkv {

// Is registered at etcd from its start until Stop; gives partitions to other
// servers, takes them from others, and restores those of servers that are lost.
// Thread-safe.
class ClusterPart {
 public:
  // All outlives this.
  struct Environment {
    KnownPlacement* placement = nullptr;
    PartitionMoves* store = nullptr;
    ConnectPeer connect;
    TakeoverCheckpoints checkpoints;
    ClusterMember::Listener listener;
  };

  // `address` is where the server listens. REQUIRES: the options have a
  // cluster.
  ClusterPart(const ServerOptions& options, const std::string& address,
              Environment environment);

  // Waits for what is under way. Later calls do nothing.
  void Stop();

  // Errors: those of ResizeCluster.
  absl::StatusOr<ResizeClusterReply> Resize(
      const ResizeClusterRequest& request) {
    return resizer_.Resize(request);
  }
  // Errors: those of MovePartitions.
  absl::Status Move(const MovePartitionsRequest& request) {
    return receiver_.Handle(request);
  }

  bool is_in_touch() const { return member_.is_in_touch(); }
  MoveCounts counts() const { return resizer_.counts(); }

 private:
  const ClusterOptions options_;
  ClusterMember member_;
  const MoveEnvironment moves_;
  PartitionReceiver receiver_;
  ClusterResizer resizer_;
};

// `part` is null before the server has one; `placement` outlives the readings.
std::vector<Reading> ClusterReadings(const KnownPlacement* placement,
                                     std::function<const ClusterPart*()> part);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CLUSTER_PART_H_
