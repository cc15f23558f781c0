#include "service/cluster/partition_sender.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "service/cluster/placement_changes.h"

namespace tensorkv {
namespace {

// Bounds how often a move looks at etcd again, because others have written
// there.
constexpr int kMostLooks = 10;

// Bound what is sent before keys are fenced: until a stage has brought so
// little that what has changed since is sent at once, or not less than half of
// the stage before, so that writers are as fast; and so many stages at most.
constexpr uint64_t kFewBytes = 4 << 20;
constexpr int kMostStages = 8;
// Bounds how often that is done anew because rules change, or a round has
// failed, as the last stage is to be sent.
constexpr int kMostLastStages = 3;

// Returns whether that server counts as lost, and had some of `partitions`.
bool IsLostWith(const std::string& server,
                const std::vector<uint32_t>& partitions,
                const ClusterPlacement& placement) {
  const auto lost =
      std::ranges::find(placement.lost, server, &LostPartitions::server);
  return lost != placement.lost.end() &&
         std::ranges::find_first_of(lost->partitions, partitions) !=
             lost->partitions.end();
}

}  // namespace

absl::Status PartitionSender::Move(const ClusterServer& to,
                                   std::vector<uint32_t> partitions,
                                   uint32_t num_partitions) {
  RETURN_IF_ERROR(goes_on_());
  const PartitionSet set = {.num_partitions = num_partitions,
                            .partitions = std::move(partitions)};
  const uint64_t move = absl::Uniform<uint64_t>(absl::BitGen(), 1, UINT64_MAX);
  const absl::StatusOr<uint64_t> num_parts = Send(to, move, set);
  if (!num_parts.ok()) {
    // Nobody has told the receiver to commit.
    environment_.store->Unfence();
    GiveUp(to, move);
    return num_parts.status();
  }
  environment_.store->FenceReads();
  unsettled_ = Unsettled{.to = to, .move = move, .partitions = set.partitions};
  const absl::Status status = Commit(to, move, set.partitions, *num_parts);
  ASSIGN_OR_RETURN(const bool has_moved, Settle());
  if (has_moved) return absl::OkStatus();
  return status.ok() ? absl::InternalError("the receiver has not committed")
                     : status;
}

absl::Status PartitionSender::Fence(const PartitionSet& set) {
  const absl::Time end = absl::Now() + patience_;
  const absl::Status status =
      environment_.store->Fence(set, [&]() -> absl::Status {
        RETURN_IF_ERROR(goes_on_());
        if (absl::Now() < end) return absl::OkStatus();
        return absl::DeadlineExceededError("it is tried again");
      });
  could_not_fence_ = !status.ok();
  return status;
}

absl::StatusOr<uint64_t> PartitionSender::Send(const ClusterServer& to,
                                               uint64_t move,
                                               const PartitionSet& set) {
  if (could_not_fence_) {
    RETURN_IF_ERROR(Fence(set));
    environment_.store->Unfence();
  }
  auto begin = NewRequest<v1::BeginMoveRequest>(move);
  begin.mutable_partitions()->Add(set.partitions.begin(), set.partitions.end());
  begin.set_num_partitions(set.num_partitions);
  RETURN_IF_ERROR(call_(to, begin));
  MoveRequest request = NewRequest<v1::SendMovePartRequest>(move);
  auto& part = std::get<v1::SendMovePartRequest>(request);
  absl::Status called;
  SnapshotStreamWriter writer([&](std::string piece) {
    RETURN_IF_ERROR(goes_on_());
    part.set_data(std::move(piece));
    called = call_(to, request);
    RETURN_IF_ERROR(called);
    part.set_part(part.part() + 1);
    return absl::OkStatus();
  });
  uint64_t bytes_ahead = 0;
  absl::Status last;
  for (int i = 0; i < kMostLastStages; ++i) {
    RETURN_IF_ERROR(SendAhead(set, writer));
    bytes_ahead = writer.tensor_bytes();
    RETURN_IF_ERROR(Fence(set));
    last = environment_.store->TakeSnapshotOfFenced(writer);
    if (!absl::IsUnavailable(last) || !called.ok()) break;
  }
  RETURN_IF_ERROR(last);
  RETURN_IF_ERROR(writer.Finish());
  sent_bytes_ += writer.tensor_bytes();
  sent_fenced_bytes_ += writer.tensor_bytes() - bytes_ahead;
  return part.part();
}

absl::Status PartitionSender::SendAhead(const PartitionSet& set,
                                        SnapshotStreamWriter& writer) {
  uint64_t last_bytes = UINT64_MAX;
  for (int i = 0; i < kMostStages; ++i) {
    RETURN_IF_ERROR(goes_on_());
    const uint64_t bytes_before = writer.tensor_bytes();
    RETURN_IF_ERROR(environment_.store->TakeChanges(set, writer));
    RETURN_IF_ERROR(writer.Finish());
    const uint64_t bytes = writer.tensor_bytes() - bytes_before;
    if (bytes <= kFewBytes || bytes > last_bytes / 2) break;
    last_bytes = bytes;
  }
  return absl::OkStatus();
}

void PartitionSender::GiveUp(const ClusterServer& to, uint64_t move) {
  // Else it keeps them until the next move begins, or this server is gone.
  call_(to, NewRequest<v1::BeginMoveRequest>(move)).IgnoreError();
}

absl::Status PartitionSender::Commit(const ClusterServer& to, uint64_t move,
                                     const std::vector<uint32_t>& partitions,
                                     uint64_t num_parts) {
  auto commit = NewRequest<v1::CommitMoveRequest>(move);
  commit.set_num_parts(num_parts);
  absl::Status status;
  for (int i = 0; i < kMostLooks; ++i) {
    ASSIGN_OR_RETURN(ClusterReading reading, records_.Read());
    const auto own = reading.registrations[environment_.server_name];
    if (own.lease == 0 || own.lease != environment_.own_lease()) {
      return absl::UnavailableError("this server is not registered");
    }
    if (!OwnsAll(reading.placement, environment_.server_name, partitions)) {
      return absl::AbortedError("partitions of the move have another owner");
    }
    unsettled_->version = reading.placement.version;
    commit.set_placement_version(reading.placement.version);
    commit.set_registration(own.revision);
    status = call_(to, commit);
    // Somebody else has changed the placement, or this server was registered
    // anew.
    if (!absl::IsAborted(status)) break;
  }
  return status;
}

absl::StatusOr<bool> PartitionSender::Settle() {
  const std::string& self = environment_.server_name;
  for (int i = 0; i < kMostLooks; ++i) {
    ASSIGN_OR_RETURN(const ClusterReading reading, records_.Read());
    ClusterPlacement placement = reading.placement;
    const bool is_own = OwnsAll(placement, self, unsettled_->partitions);
    // By a newer placement than it was told of, the receiver does not commit.
    if (!is_own || placement.version > unsettled_->version) {
      // The receiver may have passed them on. What counts as lost stays for the
      // last checkpoint, from which others restore it.
      const bool has_moved =
          !is_own && !IsLostWith(self, unsettled_->partitions, placement);
      // Before anybody may call: they may be another server's.
      RETURN_IF_ERROR(environment_.known->Set(std::move(placement), self));
      has_moved ? environment_.store->GiveAway()
                : environment_.store->Unfence();
      const Unsettled settled = *std::exchange(unsettled_, std::nullopt);
      if (!has_moved) GiveUp(settled.to, settled.move);
      return has_moved;
    }
    ++placement.version;
    RETURN_IF_ERROR(
        records_.ReplacePlacement(placement, reading.placement_revision)
            .status());
  }
  return absl::UnavailableError("others write to etcd all the time");
}

}  // namespace tensorkv
