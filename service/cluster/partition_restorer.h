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
  // Restores the last whole checkpoint of that server to `to`, and commits it.
  // Errors: NotFound: there is none where this server looks · DataLoss.
  std::function<absl::Status(const std::string& server, Restoration& to)>
      restore_last_of;
  // Gives this server another incarnation, so that clients hear that its state
  // is another.
  std::function<void()> state_has_changed;
  // Saves what this server has by now, if it saves checkpoints at all.
  std::function<absl::Status()> save;
};

// Restores the partitions that the placement gives this server and that a lost
// server had: from that one's last checkpoint, or empty where that was given
// up. Saves what it has restored, so that it is as safe as it was there, and
// then writes the placement by which this server has it. If the server dies
// before, it does it again. Confined to one thread.
class PartitionRestorer {
 public:
  // `receiver` may be getting the same partitions from others, and is told not
  // to. `records` and `receiver` outlive it.
  PartitionRestorer(MoveEnvironment environment, ClusterRecords* records,
                    PartitionReceiver* receiver,
                    TakeoverCheckpoints checkpoints, ClusterRecords::Log log)
      : environment_(std::move(environment)),
        records_(*records),
        receiver_(*receiver),
        checkpoints_(std::move(checkpoints)),
        log_(std::move(log)) {}

  // Restores what one lost server had, and returns whether there was any: then
  // there may be more. Blocks. Errors: those of TakeoverCheckpoints, of the
  // store and of etcd.
  absl::StatusOr<bool> RunOnce(const ClusterReading& reading);

 private:
  // Returns those partitions of `lost` that are this server's.
  LostPartitions OwnOf(const LostPartitions& lost,
                       const ClusterPlacement& placement) const;
  // Restores the partitions into the store, and saves a checkpoint of it,
  // unless that was done before.
  absl::Status Restore(const LostPartitions& own, uint32_t num_partitions);
  // Puts what the lost server's checkpoint has of the partitions into the
  // store; nothing if they are given up.
  absl::Status Fill(const LostPartitions& own, uint32_t num_partitions);
  // Writes the placement in which this server has the partitions.
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
