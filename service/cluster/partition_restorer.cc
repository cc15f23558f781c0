#include "service/cluster/partition_restorer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/cluster/placement_changes.h"

namespace tensorkv {

LostPartitions PartitionRestorer::OwnOf(
    const LostPartitions& lost, const ClusterPlacement& placement) const {
  LostPartitions own = lost;
  std::erase_if(own.partitions, [&](uint32_t partition) {
    return OwnerName(placement, partition) != environment_.server_name;
  });
  return own;
}

absl::StatusOr<bool> PartitionRestorer::RunOnce(const ClusterReading& reading) {
  std::vector<LostPartitions> all;
  for (const LostPartitions& lost : reading.placement.lost) {
    all.push_back(OwnOf(lost, reading.placement));
  }
  // It was announced after all; the same may be lost once more.
  if (std::ranges::count(all, restored_) == 0) restored_ = {};
  absl::Status status;
  for (const LostPartitions& own : all) {
    if (own.partitions.empty()) continue;
    // This server may know a placement of the time when it had them.
    RETURN_IF_ERROR(
        environment_.known->Set(reading.placement, environment_.server_name));
    // Keys of one server may be out of sight, while those of another are not.
    status =
        Restore(own, static_cast<uint32_t>(reading.placement.owners.size()));
    if (!status.ok()) continue;
    RETURN_IF_ERROR(Announce(own, reading));
    return true;
  }
  RETURN_IF_ERROR(status);
  return false;
}

absl::Status PartitionRestorer::Restore(const LostPartitions& own,
                                        uint32_t num_partitions) {
  if (!(own == restored_)) RETURN_IF_ERROR(Fill(own, num_partitions));
  if (own.given_up || is_saved_) return absl::OkStatus();
  RETURN_IF_ERROR(checkpoints_.save());
  is_saved_ = true;
  return absl::OkStatus();
}

absl::Status PartitionRestorer::Fill(const LostPartitions& own,
                                     uint32_t num_partitions) {
  // The lost server may live on, and send what it had begun to send.
  receiver_.CancelArrivals(own.partitions);
  const std::unique_ptr<Restoration> restoration =
      environment_.store->StartTakeover(
          {.num_partitions = num_partitions, .partitions = own.partitions});
  if (own.given_up) {
    RETURN_IF_ERROR(restoration->Commit());
  } else {
    RETURN_IF_ERROR(checkpoints_.restore_last_of(own.server, *restoration));
    checkpoints_.state_has_changed();
  }
  restored_ = own;
  is_saved_ = false;
  log_(absl::StrCat("cluster: ", own.partitions.size(), " partitions of ",
                    own.server,
                    own.given_up ? " begin anew" : " are restored"));
  return absl::OkStatus();
}

absl::Status PartitionRestorer::Announce(const LostPartitions& own,
                                         const ClusterReading& reading) {
  const std::string& self = environment_.server_name;
  ClusterPlacement placement = WithRestored(reading.placement, own.partitions);
  ASSIGN_OR_RETURN(const bool is_written,
                   records_.ReplacePlacement(
                       placement, reading.placement_revision,
                       {{self, reading.registrations.at(self).revision}}));
  // Else another one has written, and the next attempt reads what.
  if (!is_written) return absl::OkStatus();
  restored_ = {};
  return environment_.known->Set(std::move(placement), self);
}

}  // namespace tensorkv
