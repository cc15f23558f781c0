// Lets go of shares of snapshots that the homes of their namespaces do not
// name.

#ifndef TENSORKV_SERVICE_CLUSTER_SNAPSHOT_SWEEP_H_
#define TENSORKV_SERVICE_CLUSTER_SNAPSHOT_SWEEP_H_

#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "contract/placement.h"
#include "service/cluster/known_placement.h"
#include "service/cluster/peer_calls.h"
#include "service/store/snapshot_shares.h"

namespace tensorkv {

// Asks a server, and blocks until it answers, or for a bounded time.
using AskHome = std::function<absl::StatusOr<v1::CheckSharesResponse>(
    const ClusterServer& home, const v1::CheckSharesRequest& request)>;

// Returns an AskHome that calls over the channels of `connect`.
AskHome MakeAskHome(ConnectPeer connect);

// Answers a question of another server. Errors: FailedPrecondition
// (WRONG_SERVER), Unavailable: this server is not the home, or does not know.
absl::StatusOr<v1::CheckSharesResponse> AnswerAsHome(
    const KnownPlacement& known, const v1::CheckSharesRequest& request,
    SnapshotShares& store);

// Asks the home of each namespace which of this server's shares it names, or is
// to name, and lets the others go: so whoever has died between the steps of a
// snapshot, or was not heard, has left nothing in the end. Where a home cannot
// be reached, or does not know yet that it is one, all stays. A home lets go
// of its own shares in the same way.
void SweepShares(const KnownPlacement& known, const AskHome& ask,
                 SnapshotShares& store);

// Sweeps every few seconds, on a thread of its own. Thread-safe.
class SnapshotSweep {
 public:
  explicit SnapshotSweep(std::function<void()> sweep)
      : sweep_(std::move(sweep)) {}
  // Stops.
  ~SnapshotSweep() { Stop(); }

  // Begins, unless it has begun or was stopped.
  void Start();
  // Waits for the sweep that is under way. Later calls do nothing.
  void Stop();

 private:
  void Run();

  const std::function<void()> sweep_;
  Mutex mutex_;
  CondVar changed_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::thread> thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_SNAPSHOT_SWEEP_H_
