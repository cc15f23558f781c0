// Gives partitions of a server to another one.

#ifndef TENSORKV_SERVICE_CLUSTER_PARTITION_SENDER_H_
#define TENSORKV_SERVICE_CLUSTER_PARTITION_SENDER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/placement.h"
#include "service/checkpoint/snapshot_stream.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/known_placement.h"
#include "service/store/partition_moves.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// A MoveRequest is one call of a move: its beginning, a part, or its commit.
using MoveRequest = std::variant<v1::BeginMoveRequest, v1::SendMovePartRequest,
                                 v1::CommitMoveRequest>;

// Makes the call at a server, a few times if it does not answer, and blocks
// until it has answered or all were in vain.
using CallPeer = std::function<absl::Status(const ClusterServer& server,
                                            const MoveRequest& request)>;

// MoveEnvironment holds what the server's PartitionSender, PartitionReceiver
// and PartitionRestorer share, and outlives them.
struct MoveEnvironment {
  std::string server_name;
  PartitionMoves* store = nullptr;
  KnownPlacement* known = nullptr;
  // The lease of this server's registration; 0: it has none.
  std::function<int64_t()> own_lease;
};

// Makes moves one after another. The placement at etcd alone says whose the
// partitions are. The receiver changes it, once it has all keys, on the
// condition that the sender has not taken the partitions back or been started
// anew. So whatever fails, and whenever, they have one owner, which has all
// that was acknowledged. A sender that does not know the outcome takes no calls
// about them until etcd has told it. Confined to one thread.
class PartitionSender {
 public:
  // `patience` bounds the wait for open rounds to close. `goes_on` is asked
  // again and again while keys are sent; its error ends the move. `records`
  // outlives it.
  PartitionSender(MoveEnvironment environment, ClusterRecords* records,
                  CallPeer call, absl::Duration patience,
                  std::function<absl::Status()> goes_on)
      : environment_(std::move(environment)),
        records_(*records),
        call_(std::move(call)),
        patience_(patience),
        goes_on_(std::move(goes_on)) {}

  // Moves partitions that this server owns to `to`, and blocks until they are
  // that server's. After an error this server owns them as before, unless
  // is_unsettled. `num_partitions` is how many the placement has. REQUIRES: not
  // is_unsettled. Errors: DeadlineExceeded: rounds do not close · those of
  // `goes_on`, of the receiver, of the store and of etcd.
  absl::Status Move(const ClusterServer& to, std::vector<uint32_t> partitions,
                    uint32_t num_partitions);

  // Returns whether the outcome of the last move is unknown, since etcd did not
  // answer. Then Settle is to be called.
  bool is_unsettled() const { return unsettled_.has_value(); }
  // Finds the outcome out at etcd, and takes the partitions back where the
  // receiver has not committed, which is then to let go of what has come.
  // Returns whether they have moved, to the receiver or on from there.
  // REQUIRES: is_unsettled. Errors: those of etcd.
  absl::StatusOr<bool> Settle();

  // Returns how many bytes of keys that have moved were sent.
  uint64_t sent_bytes() const { return sent_bytes_; }
  // Returns how many of them were sent while the keys were fenced.
  uint64_t sent_fenced_bytes() const { return sent_fenced_bytes_; }

 private:
  // Unsettled is a move that the receiver may have committed.
  struct Unsettled {
    ClusterServer to;
    uint64_t move = 0;
    std::vector<uint32_t> partitions;
    // The version of the placement that the receiver may have been told to
    // change.
    uint64_t version = 0;
  };

  // Returns a request of this server's move that says nothing else.
  template <typename Request>
  Request NewRequest(uint64_t move) const {
    Request request;
    request.set_from(environment_.server_name);
    request.set_move(move);
    return request;
  }
  // Has calls that would change the partitions refused, and returns once no
  // round of theirs is open.
  absl::Status Fence(const PartitionSet& set);
  // Sends the keys of the partitions, fences these when little is left, and
  // sends that. Where the last move could not fence its own, sees first that
  // these can be fenced. Returns in how many parts.
  absl::StatusOr<uint64_t> Send(const ClusterServer& to, uint64_t move,
                                const PartitionSet& set);
  // Sends the keys while calls go on, and then what has changed meanwhile,
  // until that is little.
  absl::Status SendAhead(const PartitionSet& set, SnapshotStreamWriter& writer);
  // Has the receiver let go of what has come of a move that came to nothing.
  void GiveUp(const ClusterServer& to, uint64_t move);
  // Tells the receiver to commit. It may have done so despite an error.
  absl::Status Commit(const ClusterServer& to, uint64_t move,
                      const std::vector<uint32_t>& partitions,
                      uint64_t num_parts);

  const MoveEnvironment environment_;
  ClusterRecords& records_;
  const CallPeer call_;
  const absl::Duration patience_;
  const std::function<absl::Status()> goes_on_;
  std::optional<Unsettled> unsettled_;
  // Rounds did not close when a fence was tried last.
  bool could_not_fence_ = false;
  uint64_t sent_bytes_ = 0;
  uint64_t sent_fenced_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PARTITION_SENDER_H_
