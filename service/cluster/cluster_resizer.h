// Moves a server's partitions to the servers that are to have them.

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
#include "channels/channels.h"
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
  uint64_t moves_succeeded = 0;
  uint64_t moves_failed = 0;
  uint64_t partitions_moved = 0;
  uint64_t bytes_sent = 0;
  // Counts those of them that were sent while their keys took no changes.
  uint64_t bytes_sent_fenced = 0;
  // Counts the partitions of this server that are to move, as of its last look
  // at etcd.
  uint64_t partitions_to_move = 0;
  // 1 while the outcome of a move is unknown.
  uint64_t moves_unsettled = 0;
  // Counts the partitions of this server that it has not restored yet, as of
  // its last look.
  uint64_t partitions_to_restore = 0;
};

// Runs a thread from construction to Stop, which looks at etcd again and again:
// it restores partitions of this server that a lost server had; moves this
// server's partitions that others are to have, some at a time; writes which
// servers count as lost; and takes servers that have left out of the placement.
// What fails is tried again. Thread-safe.
class ClusterResizer {
 public:
  // Bounds the partitions that one move takes, and fences.
  static constexpr size_t kPartitionsPerMove = 16;

  // Starts. `etcd`, the channels to it, and `receiver` outlive it.
  ClusterResizer(const ClusterOptions& options, Channels* etcd,
                 MoveEnvironment environment, PartitionReceiver* receiver,
                 CallPeer call, TakeoverCheckpoints checkpoints,
                 ClusterRecords::Log log);
  // Stops.
  ~ClusterResizer() { Stop(); }

  // Gives up the move that is under way if its keys are not all sent, and waits
  // for its end, and for what is being restored. Later calls do nothing, also
  // while the first waits.
  void Stop();

  // Answers ResizeCluster: writes what is wanted, and wakes the thread; the
  // moves come later. Blocks until etcd answers.
  absl::StatusOr<ResizeClusterReply> Resize(
      const ResizeClusterRequest& request);

  MoveCounts counts() const;

 private:
  void Run();
  // Errors: Cancelled: Stop was called.
  absl::Status CheckNotStopping();
  // Waits for `pause`, until Resize has written, or until Stop is called;
  // returns whether Stop was called.
  bool Sleep(absl::Duration pause);
  // Returns whether something has moved, so that there may be more.
  absl::StatusOr<bool> RunOnce();
  // Moves some partitions to one of the servers that are to have any. `wanted`
  // names the owner that each partition is to have.
  absl::StatusOr<bool> MoveSome(const ClusterReading& reading,
                                const std::vector<std::string>& wanted);
  absl::Status Move(const ClusterServer& to, std::vector<uint32_t> partitions,
                    uint32_t num_partitions);
  // Has the next move wait, twice as long each time, if this one waited in
  // vain.
  void BackOff(const absl::Status& moved);
  // Logs an error once, until another one comes, or none.
  void Report(const absl::Status& outcome);
  // Returns how many partitions of this server are still to be restored.
  uint64_t NumMissing(const ClusterPlacement& placement) const;
  // Writes which servers are lost: those that have not been live for
  // lost_after. Starts to count their time anew where the last look is a lease
  // ago, since a move or a restoring took as long.
  absl::Status DeclareLostServers(const ClusterReading& reading);

  const ClusterOptions options_;
  const MoveEnvironment environment_;
  PartitionReceiver& receiver_;
  const ClusterRecords::Log log_;

  std::atomic<uint64_t> moves_succeeded_ = 0;
  std::atomic<uint64_t> moves_failed_ = 0;
  std::atomic<uint64_t> partitions_moved_ = 0;
  std::atomic<uint64_t> bytes_sent_ = 0;
  std::atomic<uint64_t> bytes_sent_fenced_ = 0;
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
  // Says since when each server of the placement has not been live, as of the
  // last look; without those that are.
  std::map<std::string, std::chrono::steady_clock::time_point> gone_since_;
  std::chrono::steady_clock::time_point last_look_;
  // Tells attempts apart, so that one server that takes nothing does not keep
  // others from theirs.
  uint64_t num_runs_ = 0;
  // Where rounds did not close in time: the error, how long the next move
  // waits for that, and until when.
  absl::Status could_not_fence_;
  absl::Duration back_off_;
  std::chrono::steady_clock::time_point next_move_;
  std::string reported_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_CLUSTER_RESIZER_H_
