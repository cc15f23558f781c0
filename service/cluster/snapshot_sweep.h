// Lets go of snapshots of the cluster that are not whole: of shares that nobody
// names, and of what lacks a share.

#ifndef TENSORKV_SERVICE_CLUSTER_SNAPSHOT_SWEEP_H_
#define TENSORKV_SERVICE_CLUSTER_SNAPSHOT_SWEEP_H_

#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "contract/placement.h"
#include "grpcpp/grpcpp.h"
#include "service/cluster/known_placement.h"
#include "service/cluster/peer_calls.h"
#include "service/store/snapshot_shares.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// Asks other servers about shares. Each call blocks until the server has
// answered, or for a bounded time.
class SharePeers {
 public:
  virtual ~SharePeers() = default;

  virtual absl::StatusOr<v1::CheckSharesResponse> Ask(
      const ClusterServer& home, const v1::CheckSharesRequest& request) = 0;
  virtual absl::StatusOr<v1::FindSharesResponse> Ask(
      const ClusterServer& server, const v1::FindSharesRequest& request) = 0;
};

// Asks them over channels. Thread-safe, for one question at a time.
class ConnectedSharePeers final : public SharePeers {
 public:
  explicit ConnectedSharePeers(ConnectPeer connect)
      : connect_(std::move(connect)) {}

  absl::StatusOr<v1::CheckSharesResponse> Ask(
      const ClusterServer& home,
      const v1::CheckSharesRequest& request) override;
  absl::StatusOr<v1::FindSharesResponse> Ask(
      const ClusterServer& server,
      const v1::FindSharesRequest& request) override;

  // Ends the question that is under way, and all later ones, with Cancelled.
  void Cancel();

 private:
  // Asks by `call(stub, context, response)`.
  template <typename Response, typename Call>
  absl::StatusOr<Response> AskBy(const ClusterServer& server, Call call);

  const ConnectPeer connect_;
  Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // That of the question under way; null if there is none.
  grpc::ClientContext* asked_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Answer questions of another server. Errors: FailedPrecondition
// (WRONG_SERVER), Unavailable: this server is not the home, or does not know ·
// FailedPrecondition: it is not the server that is asked.
absl::StatusOr<v1::CheckSharesResponse> AnswerAboutShares(
    const KnownPlacement& known, const v1::CheckSharesRequest& request,
    const SnapshotShares& shares);
absl::StatusOr<v1::FindSharesResponse> AnswerAboutShares(
    const KnownPlacement& known, const v1::FindSharesRequest& request,
    const SnapshotShares& shares);

// Asks the home of each namespace which of this server's shares it names, or is
// to name, and lets the others go: so whoever has died between the steps of a
// snapshot, or was not heard, has left nothing in the end. A home lets go of
// its own shares in the same way. Then it asks the servers of the snapshots
// that it has named whether they have their shares yet, and lets those go that
// lack one: a server was started anew, has had no room, or is in the cluster
// no more. Where a server cannot be reached, or does not know yet that it is a
// home, all stays.
void SweepShares(const KnownPlacement& known, SharePeers& peers,
                 SnapshotShares& shares);

// Sweeps every few seconds, on a thread of its own. Thread-safe.
class SnapshotSweep {
 public:
  // `known`, the channels and `shares` outlive it.
  SnapshotSweep(const KnownPlacement* known, ConnectPeer connect,
                SnapshotShares* shares)
      : known_(*known), shares_(*shares), peers_(std::move(connect)) {}
  // Stops.
  ~SnapshotSweep() { Stop(); }

  // Begins, unless it has begun or was stopped.
  void Start();
  // Cuts the sweep short that is under way, and waits for its end. Later calls
  // do nothing.
  void Stop();

 private:
  void Run();

  const KnownPlacement& known_;
  SnapshotShares& shares_;
  ConnectedSharePeers peers_;
  Mutex mutex_;
  CondVar changed_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::thread> thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_SNAPSHOT_SWEEP_H_
