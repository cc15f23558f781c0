// Takes partitions from other servers.

#ifndef TENSORKV_SERVICE_CLUSTER_PARTITION_RECEIVER_H_
#define TENSORKV_SERVICE_CLUSTER_PARTITION_RECEIVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "service/checkpoint/snapshot_stream.h"
#include "service/cluster/cluster_options.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/partition_sender.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// Answers the calls of TENSORKV_MOVE_METHODS. Several servers may send at the
// same time, each one move. What a move has brought and not committed stays,
// where no call sees it, until its sender begins another one or gives it up,
// it fails here, or EndAbandoned finds the sender gone. Thread-safe.
class PartitionReceiver {
 public:
  PartitionReceiver(const ClusterOptions& options, MoveEnvironment environment,
                    ClusterRecords records);

  // Take one step of a move: its beginning, a part, or its commit, by which the
  // placement gives this server the partitions. Block for the store, and for
  // etcd. A step may come twice. Errors: those of the method.
  absl::Status Handle(const v1::BeginMoveRequest& request);
  absl::Status Handle(const v1::SendMovePartRequest& request);
  absl::Status Handle(const v1::CommitMoveRequest& request);

  // Ends what moves that have begun bring of `partitions`: their next steps
  // fail with Aborted. This server owns the partitions, and is about to fill
  // them itself.
  void CancelArrivals(const std::vector<uint32_t>& partitions);
  // Ends the moves of servers that are gone or were started anew since these
  // began, and removes what they have brought. Reads etcd again where `reading`
  // tells so, as it may be older than the move.
  void EndAbandoned(const ClusterReading& reading);

 private:
  // Sender is one server that sends keys. Its mutex is taken before
  // records_mutex_.
  struct Sender {
    Mutex mutex;
    // 0: nothing has begun.
    uint64_t move ABSL_GUARDED_BY(mutex) = 0;
    bool is_committed ABSL_GUARDED_BY(mutex) = false;
    // Not OK: the move is of no use any more.
    absl::Status status ABSL_GUARDED_BY(mutex);
    PartitionSet set ABSL_GUARDED_BY(mutex);
    // That of the server when the move began, by its revision.
    int64_t registration ABSL_GUARDED_BY(mutex) = 0;
    uint64_t next_part ABSL_GUARDED_BY(mutex) = 0;
    std::unique_ptr<Restoration> restoration ABSL_GUARDED_BY(mutex);
    std::unique_ptr<SnapshotStreamReader> reader ABSL_GUARDED_BY(mutex);
  };

  // Returns the sender of that name, a new one if there is none.
  Sender& SenderOf(const std::string& name);
  // Errors: InvalidArgument: the request does not name another server, and a
  // move.
  template <typename Request>
  absl::Status CheckNames(const Request& request) const;
  // Errors: NotFound: the sender has no such move · why the move is of no use.
  template <typename Request>
  static absl::Status CheckGoesOn(const Request& request, const Sender& sender)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex);
  absl::Status Begin(const v1::BeginMoveRequest& request, Sender& sender)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex);
  absl::Status GiveUp(Sender& sender)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex);
  absl::Status TakePart(const v1::SendMovePartRequest& request, Sender& sender)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex);
  absl::Status Commit(const v1::CommitMoveRequest& request, Sender& sender)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex);
  // Writes the placement in which the partitions are this server's. Errors:
  // Aborted: the placement, or the sender's registration, is not that of the
  // request.
  absl::Status TakeOwnership(const v1::CommitMoveRequest& request,
                             const std::vector<uint32_t>& partitions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(records_mutex_);
  // Ends the sender's move, which has not committed, with `why` as the error of
  // its next steps. Removes what it has brought.
  void End(Sender& sender, const ClusterPlacement& placement, absl::Status why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex, records_mutex_);
  // Removes what the sender's last move has brought, if that has come to
  // nothing and nobody has begun to bring it since.
  void DiscardArrivalsOf(const Sender& sender,
                         const ClusterPlacement& placement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex, records_mutex_);
  // Errors: Aborted: partitions of the sender's move are not on their way by
  // that move any more.
  absl::Status CheckAreArriving(const Sender& sender) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sender.mutex, records_mutex_);
  bool IsArriving(uint32_t partition, uint64_t move) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(records_mutex_);

  const ClusterOptions options_;
  const MoveEnvironment environment_;

  Mutex mutex_;
  // By name; none is ever removed.
  std::map<std::string, std::unique_ptr<Sender>> senders_
      ABSL_GUARDED_BY(mutex_);

  Mutex records_mutex_;
  ClusterRecords records_ ABSL_GUARDED_BY(records_mutex_);
  // By partition: the last move that has begun to bring it, unless that has
  // been committed, or CancelArrivals has ended it. What others have brought of
  // it before has gone. Whoever puts keys of it into the store holds the mutex
  // meanwhile, so that no part that comes late adds to what another one has
  // brought.
  std::map<uint32_t, uint64_t> arriving_ ABSL_GUARDED_BY(records_mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PARTITION_RECEIVER_H_
