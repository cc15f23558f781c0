// Runs what a server of a cluster runs beside its store.

#ifndef TENSORKV_SERVICE_SERVER_CLUSTER_PART_H_
#define TENSORKV_SERVICE_SERVER_CLUSTER_PART_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "channels/channels.h"
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

// Asks etcd over `etcd` whether the server may read and write what there is of
// its cluster, and blocks until it answers or its time is over. Returns OK also
// where it does not answer. Errors: FailedPrecondition: it may not. REQUIRES:
// the options have a cluster.
absl::Status CheckEtcdAccess(const ServerOptions& options, Channels* etcd);

// A ClusterPart keeps its server registered at etcd from construction to Stop;
// it gives partitions to other servers, takes them from others, and restores
// those of servers that are lost. Thread-safe.
class ClusterPart {
 public:
  // Environment holds what outlives the ClusterPart.
  struct Environment {
    Channels* etcd = nullptr;
    KnownPlacement* placement = nullptr;
    PartitionMoves* store = nullptr;
    ConnectPeer connect;
    TakeoverCheckpoints checkpoints;
    ClusterMember::Listener listener;
  };

  // Starts. `address` is where the server listens. REQUIRES: the options have a
  // cluster.
  ClusterPart(const ServerOptions& options, const std::string& address,
              Environment environment);

  // Ends the registration and the moves of this server, and waits until they
  // have ended. Later calls do nothing.
  void Stop();

  // Answers ResizeCluster. Blocks while etcd answers. Errors: those of
  // ResizeCluster.
  absl::StatusOr<ResizeClusterReply> Resize(
      const ResizeClusterRequest& request) {
    return resizer_.Resize(request);
  }
  // Takes a step of a move of another server's partitions to this one, as
  // PartitionReceiver::Handle does.
  template <typename Request>
  absl::Status Move(const Request& request) {
    return receiver_.Handle(request);
  }

  // Returns whether the last attempt has renewed the registration.
  bool is_in_touch() const { return member_.is_in_touch(); }
  MoveCounts counts() const { return resizer_.counts(); }

 private:
  const ClusterOptions options_;
  ClusterMember member_;
  const MoveEnvironment moves_;
  PartitionReceiver receiver_;
  ClusterResizer resizer_;
};

// Returns the metrics of a server of a cluster. Each scrape calls `part`, which
// returns null until the server has a ClusterPart: the metrics of it are 0
// then. `placement`, and what `part` returns, outlive the result.
std::vector<Reading> ClusterPartReadings(
    const KnownPlacement* placement, std::function<const ClusterPart*()> part);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CLUSTER_PART_H_
