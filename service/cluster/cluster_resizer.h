// Has a server's partitions go to those that are to have them.

#ifndef TENSORKV_SERVICE_CLUSTER_CLUSTER_RESIZER_H_
#define TENSORKV_SERVICE_CLUSTER_CLUSTER_RESIZER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "service/cluster/cluster_options.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/partition_receiver.h"
#include "service/cluster/partition_restorer.h"
#include "service/cluster/partition_sender.h"

namespace tensorkv {

// MoveCounts counts the moves that this server has begun.
struct MoveCounts {
  uint64_t moves_ended = 0;
  uint64_t moves_failed = 0;
  uint64_t partitions_moved = 0;
  uint64_t bytes_sent = 0;
  // Counts those of this server's partitions that are to move, as of when it
  // looked last.
  uint64_t partitions_to_move = 0;
  // 1 while the outcome of a move is unknown.
  uint64_t moves_unsettled = 0;
  // Counts those of this server's partitions that it does not have, as of then.
  uint64_t partitions_to_restore = 0;
};

// Moves some partitions at a time, on a thread of its own, as long as the
// placement gives this server others than it is to have; and restores before
// that what a lost server had of its own. Says at etcd which servers count as
// lost, and takes out those that have left. What fails is made again. The
// thread runs from construction to Stop. Thread-safe.
class ClusterResizer {
 public:
  // So many partitions, at most, are fenced at a time.
  static constexpr size_t kPartitionsPerMove = 16;

  // `receiver` outlives it.
  ClusterResizer(const ClusterOptions& options, MoveEnvironment environment,
                 PartitionReceiver* receiver, CallPeer call,
                 TakeoverCheckpoints checkpoints, ClusterRecords::Log log);
  // Stops.
  ~ClusterResizer() { Stop(); }

  // Waits for the move that is under way, which is given up if it has not come
  // to its end, and for what is being restored. Later calls do nothing, also
  // while the first waits.
  void Stop();

  // Answers ResizeCluster: writes what is wanted. The moves come later.
  absl::StatusOr<ResizeClusterReply> Resize(
      const ResizeClusterRequest& request);

  MoveCounts counts() const;

 private:
  void Run();
  // Errors: Cancelled: Stop was called.
  absl::Status GoesOn();
  // Waits for the next attempt; returns whether to stop.
  bool Sleep(absl::Duration pause);
  // Returns whether something has moved, so that there may be more.
  absl::StatusOr<bool> RunOnce();
  absl::StatusOr<bool> MoveSome(const ClusterReading& reading,
                                const std::vector<std::string>& wanted);
  absl::Status Move(const ClusterServer& to, std::vector<uint32_t> partitions,
                    uint32_t num_partitions);
  void Report(const absl::Status& outcome);
  // Returns how many partitions of this server are still to be restored.
  uint64_t NumMissing(const ClusterPlacement& placement) const;
  // Says that servers are lost that have not been live for so long. Where looks
  // are a lease apart, as a move or a restoring takes as long, time counts
  // anew.
  absl::Status LoseServers(const ClusterReading& reading);

  const ClusterOptions options_;
  const MoveEnvironment environment_;
  const ClusterRecords::Log log_;

  std::atomic<uint64_t> moves_ended_ = 0;
  std::atomic<uint64_t> moves_failed_ = 0;
  std::atomic<uint64_t> partitions_moved_ = 0;
  std::atomic<uint64_t> bytes_sent_ = 0;
  std::atomic<uint64_t> partitions_to_move_ = 0;
  std::atomic<bool> is_unsettled_ = false;
  std::atomic<uint64_t> partitions_to_restore_ = 0;

  // For calls.
  Mutex request_mutex_;
  ClusterRecords request_records_ ABSL_GUARDED_BY(request_mutex_);

  // Confined to the thread.
  ClusterRecords records_;
  PartitionSender sender_;
  PartitionRestorer restorer_;
  // Since when each server of the placement that is not live has not been, as
  // of the last look.
  std::map<std::string, std::chrono::steady_clock::time_point> gone_since_;
  std::chrono::steady_clock::time_point last_look_;
  // Tells attempts apart, so that one server that takes nothing does not keep
  // others from theirs.
  uint64_t num_runs_ = 0;
  std::string reported_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_CLUSTER_RESIZER_H_
