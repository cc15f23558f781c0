// Gives partitions of a server to another one.

#ifndef TENSORKV_SERVICE_CLUSTER_PARTITION_SENDER_H_
#define TENSORKV_SERVICE_CLUSTER_PARTITION_SENDER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/known_placement.h"
#include "service/store/partition_moves.h"

namespace tensorkv {

// Calls MovePartitions at a server, as often as it takes to have an answer.
using CallPeer = std::function<absl::Status(
    const ClusterServer& server, const MovePartitionsRequest& request)>;

// MoveEnvironment holds what this server shares with its PartitionSender; all
// of it outlives that.
struct MoveEnvironment {
  std::string server_name;
  PartitionMoves* store = nullptr;
  KnownPlacement* known = nullptr;
  // The lease of this server's registration; 0: it has none.
  std::function<int64_t()> own_lease;
};

// Moves are one after another. What says whose the partitions are is the
// placement alone, which the receiver changes, once it has all, on the
// condition that the sender has not taken them back or been started anew. So
// whatever fails, and whenever, they have one owner, which has all that was
// acknowledged: who cannot know the outcome takes no calls about them until
// etcd has told it. Confined to one thread.
class PartitionSender {
 public:
  // `patience` is how long rounds that are open are waited for. A move whose
  // keys are not all sent ends with the error of `goes_on`.
  PartitionSender(MoveEnvironment environment, ClusterRecords* records,
                  CallPeer call, absl::Duration patience,
                  std::function<absl::Status()> goes_on)
      : environment_(std::move(environment)),
        records_(*records),
        call_(std::move(call)),
        patience_(patience),
        goes_on_(std::move(goes_on)) {}

  // Moves partitions that are this server's to `to`. Afterwards they are that
  // server's, or after an error as before, unless is_unsettled.
  // Errors: DeadlineExceeded: rounds do not close · those of `goes_on`, of the
  // receiver, of the store and of etcd.
  absl::Status Move(const ClusterServer& to, std::vector<uint32_t> partitions,
                    uint32_t num_partitions);

  // Returns whether the outcome of the last move is unknown, as etcd does not
  // answer.
  bool is_unsettled() const { return unsettled_.has_value(); }
  // Finds it out, or takes the partitions back. Returns whether they have
  // moved, be it that they have moved on. REQUIRES: is_unsettled. Errors: those
  // of etcd.
  absl::StatusOr<bool> Settle();

  // Returns how many bytes of keys that have moved were sent.
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Unsettled {
    std::string to;
    std::vector<uint32_t> partitions;
    // By which the receiver may have been told to commit.
    uint64_t version = 0;
  };

  // Returns once no round of theirs is open.
  absl::Status Fence(const PartitionSet& set);
  // Holds them, and returns in how many parts they were sent.
  absl::StatusOr<uint64_t> Send(const ClusterServer& to, uint64_t move,
                                const PartitionSet& set);
  absl::Status Commit(const ClusterServer& to, uint64_t move,
                      const std::vector<uint32_t>& partitions,
                      uint64_t num_parts);

  const MoveEnvironment environment_;
  ClusterRecords& records_;
  const CallPeer call_;
  const absl::Duration patience_;
  const std::function<absl::Status()> goes_on_;
  std::optional<Unsettled> unsettled_;
  uint64_t sent_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PARTITION_SENDER_H_
