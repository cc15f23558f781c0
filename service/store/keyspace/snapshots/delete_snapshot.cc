// DeleteSnapshot: lets snapshots go, whoever has leases of them.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/cluster_shares.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/snapshot_reference.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr int kMaxUids = 1024;

void AddGone(const NamespaceState& state, const Series& series,
             DeleteSnapshotReply& reply) {
  if (state.Owned() == nullptr) return;
  for (const uint64_t uid : GoneUids(series)) reply.add_gone(uid);
}

// Lets go of what waits for parts, of numbers up to `last`, if there is any.
bool EndParts(Transaction& transaction, const Series& series, uint64_t last) {
  const auto first = series.incomplete.begin();
  if (first == series.incomplete.end() || first->first > last) return false;
  CloseSnapshot(transaction, *first->second->parts().begin()->second,
                NamedSnapshots::Cause::kDeleted);
  return true;
}

// Deletes the first snapshots with numbers up to `last`, and counts them.
// Returns whether these were all.
bool DeleteSome(Transaction& transaction, Series& series, uint64_t last,
                DeleteSnapshotReply& reply) {
  for (size_t i = 0; MayLetGo(transaction, i); ++i) {
    if (EndParts(transaction, series, last)) continue;
    const auto first = series.snapshots.begin();
    if (first == series.snapshots.end() || first->first > last) return true;
    CloseSnapshot(transaction, first->second, NamedSnapshots::Cause::kDeleted);
    reply.set_num_deleted(reply.num_deleted() + 1);
  }
  return false;
}

// Deletes those that there are at the call's beginning.
absl::StatusOr<DeleteSnapshotReply> DeleteAll(NamespaceState& state,
                                              const std::string& name,
                                              const CallContext& context) {
  const absl::Duration end = state.Now() + context.timeout;
  DeleteSnapshotReply reply;
  uint64_t last = 0;
  for (bool is_all = false; !is_all;) {
    RETURN_IF_ERROR(CheckIsWanted(state, context));
    if (state.Now() >= end) {
      return absl::DeadlineExceededError(
          absl::StrCat("series ", Quoted(name), ": deleted ",
                       reply.num_deleted(), " snapshots, more were to follow"));
    }
    Transaction transaction(state);
    RETURN_IF_ERROR(state.gone);
    RETURN_IF_ERROR(CheckIsHome(state));
    Series* const series = state.named->Find(name);
    if (series == nullptr) return NoSuchSeries(name);
    if (last == 0) last = series->last_number;
    is_all = DeleteSome(transaction, *series, last, reply);
  }
  MutexLock lock(&state.mutex);
  AddGone(state, *state.named->Find(name), reply);
  return reply;
}

absl::StatusOr<DeleteSnapshotReply> DeleteOne(
    NamespaceState& state, const DeleteSnapshotRequest& request) {
  Transaction transaction(state);
  RETURN_IF_ERROR(state.gone);
  RETURN_IF_ERROR(CheckIsHome(state));
  Series* const series = state.named->Find(request.series());
  if (series == nullptr) return NoSuchSeries(request.series());
  NamedSnapshot* const found = series->Find(request.number());
  if (found == nullptr) return NoSuchSnapshot(*series, request.number());
  CloseSnapshot(transaction, *found, NamedSnapshots::Cause::kDeleted);
  DeleteSnapshotReply reply;
  reply.set_num_deleted(1);
  AddGone(state, *series, reply);
  return reply;
}

absl::StatusOr<DeleteSnapshotReply> DeleteUids(
    NamespaceState& state, const DeleteSnapshotRequest& request) {
  if (request.uids_size() > kMaxUids) {
    return absl::InvalidArgumentError(absl::StrCat(
        "uids: expected at most ", kMaxUids, ", got ", request.uids_size()));
  }
  ASSIGN_OR_RETURN(const uint64_t num_deleted, DropUids(state, request.uids()));
  DeleteSnapshotReply reply;
  reply.set_num_deleted(num_deleted);
  return reply;
}

absl::StatusOr<DeleteSnapshotReply> DeleteNow(
    NamespaceState& state, const DeleteSnapshotRequest& request,
    const CallContext& context) {
  if (!request.uids().empty()) return DeleteUids(state, request);
  RETURN_IF_ERROR(CheckSeriesName("series", request.series()));
  return request.has_number() ? DeleteOne(state, request)
                              : DeleteAll(state, request.series(), context);
}

}  // namespace

void Namespace::DeleteSnapshot(DeleteSnapshotRequest request,
                               CallContext context,
                               ReplyCallback<DeleteSnapshotReply> done) {
  std::move(done)(DeleteNow(*state_, request, context));
}

}  // namespace tensorkv
