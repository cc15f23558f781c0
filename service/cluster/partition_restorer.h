// Restores partitions of servers that were lost.

#ifndef TENSORKV_SERVICE_CLUSTER_PARTITION_RESTORER_H_
#define TENSORKV_SERVICE_CLUSTER_PARTITION_RESTORER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/partition_receiver.h"
#include "service/cluster/partition_sender.h"
#include "service/store/snapshot.h"

namespace tensorkv {

// TakeoverCheckpoints gives a server that takes over the checkpoints of others.
struct TakeoverCheckpoints {
  // Gives the last whole checkpoint of that server to `to`, with its Commit.
  // Errors: NotFound: there is none where this server looks · DataLoss.
  std::function<absl::Status(const std::string& server, Restoration& to)>
      restore_last_of;
  // Has the clients hear that this server is another incarnation.
  std::function<void()> state_has_changed;
  // Saves what this server has by now, if it saves checkpoints at all.
  std::function<absl::Status()> save;
};

// Gives this server what it owns and does not have yet, by the placement: what
// a lost server had by its last checkpoint, or nothing where that was given up.
// Only then does the placement say that it is all there; who dies before does
// it again. What was restored is saved first, so that it is as safe as it was
// there. Confined to one thread.
class PartitionRestorer {
 public:
  // `receiver` is what may be getting the same partitions from others.
  PartitionRestorer(MoveEnvironment environment, ClusterRecords* records,
                    PartitionReceiver* receiver,
                    TakeoverCheckpoints checkpoints, ClusterRecords::Log log)
      : environment_(std::move(environment)),
        records_(*records),
        receiver_(*receiver),
        checkpoints_(std::move(checkpoints)),
        log_(std::move(log)) {}

  // Returns whether something was restored, so that there may be more.
  // Errors: those of TakeoverCheckpoints, of the store and of etcd.
  absl::StatusOr<bool> RunOnce(const ClusterReading& reading);

 private:
  // Returns those partitions of `lost` that are this server's.
  LostPartitions OwnOf(const LostPartitions& lost,
                       const ClusterPlacement& placement) const;
  // Has the store have them, and a checkpoint of it.
  absl::Status Restore(const LostPartitions& own, uint32_t num_partitions);
  absl::Status Fill(const LostPartitions& own, uint32_t num_partitions);
  absl::Status Announce(const LostPartitions& own,
                        const ClusterReading& reading);

  const MoveEnvironment environment_;
  ClusterRecords& records_;
  PartitionReceiver& receiver_;
  const TakeoverCheckpoints checkpoints_;
  const ClusterRecords::Log log_;
  // Hold what was restored, and whether that was saved; it may not be announced
  // yet, and is not restored again after an error of the disk or of etcd.
  LostPartitions restored_;
  bool is_saved_ = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PARTITION_RESTORER_H_
