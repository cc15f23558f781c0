// DescribeSnapshot: tells of one snapshot, and who has leases of it.

#include <algorithm>
#include <utility>

#include "contract/duration.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/call_at_snapshot.h"
#include "service/store/keyspace/snapshots/snapshot_status.h"

namespace tensorkv {
namespace {

// Bounds what is made while others wait for the mutex.
constexpr int kMaxLeasesTold = 100;

}  // namespace

void Namespace::DescribeSnapshot(DescribeSnapshotRequest request,
                                 CallContext context,
                                 ReplyCallback<DescribeSnapshotReply> done) {
  const auto read = [state = state_.get()](NamedSnapshot& snapshot) {
    const absl::Duration now = state->Now();
    DescribeSnapshotReply reply;
    SetStatus(snapshot, now, reply.mutable_snapshot());
    for (const auto& [id, lease] : snapshot.leases) {
      if (reply.leases_size() == kMaxLeasesTold) break;
      v1::SnapshotLease& out = *reply.add_leases();
      out.set_name(id.name);
      out.set_caller(id.caller);
      EncodeDuration(std::max(lease.end - now, absl::ZeroDuration()),
                     out.mutable_time_left());
    }
    reply.set_retained_bytes(IsOfParts(snapshot) ? snapshot.parts->HeldBytes()
                                                 : snapshot.held_bytes);
    reply.set_keep_last(snapshot.series->keep_last);
    return reply;
  };
  StartAtSnapshot<DescribeSnapshotReply>(
      *state_, request.at(), std::move(context), read, std::move(done));
}

}  // namespace tensorkv
