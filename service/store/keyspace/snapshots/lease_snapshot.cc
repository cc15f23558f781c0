// LeaseSnapshot: has a snapshot stay for a while.

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/call_at_snapshot.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"

namespace tensorkv {
namespace {

constexpr absl::Duration kMaxLease = absl::Hours(1);

absl::StatusOr<absl::Duration> DurationOf(const LeaseSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckSeriesName("lease", request.lease()));
  ASSIGN_OR_RETURN(const absl::Duration duration,
                   DecodeDuration("duration", request.duration()));
  if (duration >= absl::ZeroDuration() && duration <= kMaxLease) {
    return duration;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("duration: expected 0 to ", absl::FormatDuration(kMaxLease),
                   ", got ", absl::FormatDuration(duration)));
}

LeaseSnapshotReply ReplyOf(const NamedSnapshot& snapshot) {
  LeaseSnapshotReply reply;
  reply.set_number(snapshot.number);
  return reply;
}

// Ends the lease, and lets go of what only that has kept.
absl::StatusOr<LeaseSnapshotReply> Release(NamespaceState& state,
                                           const SnapshotReference& reference,
                                           SnapshotLeaseId id) {
  RETURN_IF_ERROR(CheckReference(reference));
  Transaction transaction(state);
  ASSIGN_OR_RETURN(NamedSnapshot* const found, FindSnapshot(state, reference));
  if (found == nullptr) return MissingSnapshot(state, reference);
  const LeaseSnapshotReply reply = ReplyOf(*found);
  const absl::Duration now = state.Now();
  Series& series = *found->series;
  RETURN_IF_ERROR(state.named->Lease(*found, std::move(id), now, now));
  if (found->IsExpired(now)) {
    CloseSnapshot(transaction, *found, NamedSnapshots::Cause::kExpired);
  }
  TrimSeries(transaction, series);
  return reply;
}

}  // namespace

void Namespace::LeaseSnapshot(LeaseSnapshotRequest request, CallContext context,
                              ReplyCallback<LeaseSnapshotReply> done) {
  const absl::StatusOr<absl::Duration> duration = DurationOf(request);
  if (!duration.ok()) return std::move(done)(duration.status());
  SnapshotLeaseId id = {.caller = context.caller.name, .name = request.lease()};
  if (*duration == absl::ZeroDuration()) {
    return std::move(done)(Release(*state_, request.at(), std::move(id)));
  }
  const auto read =
      [state = state_.get(), id = std::move(id), duration = *duration](
          NamedSnapshot& snapshot) -> absl::StatusOr<LeaseSnapshotReply> {
    const absl::Duration now = state->Now();
    if (!snapshot.leases.contains(id)) {
      RETURN_IF_ERROR(CheckRoom(*state, {.host = NamedSnapshots::BytesOf(id)}));
    }
    RETURN_IF_ERROR(state->named->Lease(snapshot, id, now + duration, now));
    SetSnapshotAlarm(*state);
    return ReplyOf(snapshot);
  };
  StartAtSnapshot<LeaseSnapshotReply>(*state_, request.at(), std::move(context),
                                      read, std::move(done));
}

}  // namespace tensorkv
