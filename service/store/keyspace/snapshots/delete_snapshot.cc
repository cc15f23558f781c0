// DeleteSnapshot: lets snapshots go, whoever has leases of them.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/snapshot_reference.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"

namespace tensorkv {
namespace {

// Bounds the snapshots that go in one locking of the mutex.
constexpr size_t kSnapshotsPerLock = 16;

// Deletes the first snapshots with numbers up to `last`, and counts them.
// Returns whether these were all.
bool DeleteSome(Transaction& transaction, Series& series, uint64_t last,
                DeleteSnapshotReply& reply) {
  for (size_t i = 0; i < kSnapshotsPerLock; ++i) {
    const auto first = series.snapshots.begin();
    if (first == series.snapshots.end() || first->first > last) return true;
    CloseSnapshot(transaction, first->second, NamedSnapshots::Cause::kDeleted);
    reply.set_num_deleted(reply.num_deleted() + 1);
  }
  return false;
}

absl::StatusOr<DeleteSnapshotReply> DeleteNow(
    NamespaceState& state, const DeleteSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckSeriesName("series", request.series()));
  DeleteSnapshotReply reply;
  Transaction transaction(state);
  RETURN_IF_ERROR(state.gone);
  // It stays where it is, as long as the namespace does.
  Series* const series = state.named->Find(request.series());
  if (series == nullptr) return NoSuchSeries(request.series());
  if (request.has_number()) {
    NamedSnapshot* const found = series->Find(request.number());
    if (found == nullptr) return NoSuchSnapshot(*series, request.number());
    CloseSnapshot(transaction, *found, NamedSnapshots::Cause::kDeleted);
    reply.set_num_deleted(1);
    return reply;
  }
  const uint64_t last = series->last_number;
  while (!DeleteSome(transaction, *series, last, reply)) {
    transaction.Unlock();
    transaction.Lock();
  }
  return reply;
}

}  // namespace

void Namespace::DeleteSnapshot(DeleteSnapshotRequest request, CallContext,
                               ReplyCallback<DeleteSnapshotReply> done) {
  std::move(done)(DeleteNow(*state_, request));
}

}  // namespace tensorkv
