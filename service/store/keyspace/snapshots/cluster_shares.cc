#include "service/store/keyspace/snapshots/cluster_shares.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/snapshot_reference.h"
#include "service/store/keyspace/snapshots/snapshot_status.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/snapshots/taking.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bound for how long a number is reserved.
constexpr absl::Duration kShortestReservation = absl::Minutes(1);
constexpr absl::Duration kLongestReservation = absl::Hours(1);

// Bounds what is kept of the servers of one snapshot.
constexpr int kMostServers = 4096;

absl::Status CheckServers(const CreateSnapshotRequest& request) {
  const bool is_right =
      request.servers_size() <= kMostServers &&
      std::all_of(request.servers().begin(), request.servers().end(),
                  [](const std::string& server) {
                    return server.size() <= kMaxNamespaceBytes;
                  });
  if (is_right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("servers: expected at most ", kMostServers, " names of ",
                   kMaxNamespaceBytes, " bytes, got others"));
}

CreateSnapshotReply NamedReply(const NamedSnapshot& snapshot) {
  CreateSnapshotReply reply;
  SetReply(snapshot, &reply);
  return reply;
}

// Names the share, which is there. Returns its reply.
absl::StatusOr<CreateSnapshotReply> NameNow(
    Transaction& transaction, const CreateSnapshotRequest& request,
    NamedSnapshot& share) {
  NamespaceState& state = transaction.state();
  Series& series = *share.series;
  const absl::Duration now = state.Now();
  const std::optional<uint64_t> number =
      state.named->reserved().Find(share.uid, now);
  if (!number) {
    CloseSnapshot(transaction, share, NamedSnapshots::Cause::kExpired);
    return NoSuchSnapshot(series, request.number());
  }
  if (!share.is_ready) {
    return absl::FailedPreconditionError(
        absl::StrCat("series ", Quoted(series.name), ": expected the share of ",
                     *number, " to be complete, effects of it are under way"));
  }
  if (request.has_num_keys()) share.num_keys = request.num_keys();
  if (request.has_bytes()) share.bytes = request.bytes();
  state.named->Name(share, *number,
                    {request.servers().begin(), request.servers().end()}, now);
  state.changes.Record(ChangeKind::kSnapshot, series.name, share.number,
                       transaction.revision());
  const CreateSnapshotReply reply = NamedReply(share);
  TrimSeries(transaction, series);
  Wake(transaction, SnapshotTopic(series.name));
  SetSnapshotAlarm(state);
  return reply;
}

}  // namespace

absl::StatusOr<CreateSnapshotReply> ReserveNumber(NamespaceState& state,
                                                  SnapshotTerms terms,
                                                  absl::Duration timeout) {
  Transaction transaction(state);
  if (const auto fence = state.Fence()) {
    RETURN_IF_ERROR(fence->CheckRead(state.name, ""));
  }
  RETURN_IF_ERROR(CheckCanTake(transaction, terms));
  const absl::Duration now = state.Now();
  terms.uid = NewSnapshotUid();
  CreateSnapshotReply reply;
  reply.set_uid(terms.uid);
  const std::string series = terms.series;
  RETURN_IF_ERROR(state.named->Reserve(
      std::move(terms),
      now + std::clamp(timeout, kShortestReservation, kLongestReservation),
      now));
  reply.set_number(state.named->Find(series)->last_number);
  return reply;
}

absl::StatusOr<CreateSnapshotReply> NameShare(
    NamespaceState& state, const CreateSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckSeriesName("series", request.series()));
  RETURN_IF_ERROR(CheckServers(request));
  Transaction transaction(state);
  RETURN_IF_ERROR(state.gone);
  Series* const series = state.named->Find(request.series());
  if (series == nullptr) return NoSuchSeries(request.series());
  NamedSnapshot* const found = state.named->FindUid(request.uid());
  if (found == nullptr || found->series != series) {
    return NoSuchSnapshot(*series, request.number());
  }
  // One that is named has been so by this call, whose answer was lost.
  absl::StatusOr<CreateSnapshotReply> reply =
      found->is_share ? NameNow(transaction, request, *found)
                      : NamedReply(*found);
  if (!reply.ok()) return reply;
  for (const uint64_t uid : GoneUids(*series)) reply->add_gone(uid);
  return reply;
}

absl::StatusOr<uint64_t> DropUids(NamespaceState& state,
                                  absl::Span<const uint64_t> uids) {
  uint64_t num_dropped = 0;
  for (size_t i = 0; i < uids.size(); i += kSnapshotsPerLock) {
    Transaction transaction(state);
    RETURN_IF_ERROR(state.gone);
    for (const uint64_t uid : uids.subspan(i, kSnapshotsPerLock)) {
      state.named->reserved().GiveBack(uid);
      NamedSnapshot* const found = state.named->FindUid(uid);
      if (found == nullptr) continue;
      CloseSnapshot(transaction, *found, NamedSnapshots::Cause::kDeleted);
      ++num_dropped;
    }
  }
  return num_dropped;
}

std::vector<uint64_t> GoneUids(const Series& series) {
  std::vector<uint64_t> uids;
  for (const Series::Lost& lost : series.lost) uids.push_back(lost.uid);
  return uids;
}

// --- Whether they are named --------------------------------------------------

std::vector<v1::CheckSharesRequest> Namespace::SharesToCheck() const {
  const NamespaceState& state = *state_;
  std::vector<v1::CheckSharesRequest> requests;
  uint64_t last = 0;
  for (bool has_more = true; has_more;) {
    v1::CheckSharesRequest request;
    request.set_namespace_(state.name);
    request.set_namespace_uid(state.uid);
    {
      MutexLock lock(&state.mutex);
      const std::vector<uint64_t> uids =
          state.named->UidsAfter(&last, kKeysPerLock);
      request.mutable_uids()->Add(uids.begin(), uids.end());
      has_more = uids.size() == kKeysPerLock;
      const std::deque<uint64_t>& lost = state.named->lost_shares();
      if (requests.empty()) {
        request.mutable_lost()->Add(lost.begin(), lost.end());
      }
    }
    if (request.uids_size() + request.lost_size() > 0) {
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

v1::CheckSharesResponse Namespace::CheckShares(
    const v1::CheckSharesRequest& request) {
  NamespaceState& state = *state_;
  v1::CheckSharesResponse response;
  const auto count = static_cast<size_t>(request.uids_size());
  for (size_t i = 0; i < count; i += kKeysPerLock) {
    MutexLock lock(&state.mutex);
    const absl::Duration now = state.Now();
    for (size_t j = i; j < std::min(count, i + kKeysPerLock); ++j) {
      const uint64_t uid = request.uids(static_cast<int>(j));
      const NamedSnapshot* const found = state.named->FindUid(uid);
      const bool is_named = found != nullptr && !found->is_share;
      if (is_named || state.named->reserved().Find(uid, now)) continue;
      response.add_unknown(uid);
    }
  }
  const auto num_lost = static_cast<size_t>(request.lost_size());
  for (size_t i = 0; i < num_lost; i += kSnapshotsPerLock) {
    Transaction transaction(state);
    for (size_t j = i; j < std::min(num_lost, i + kSnapshotsPerLock); ++j) {
      NamedSnapshot* const found =
          state.named->FindUid(request.lost(static_cast<int>(j)));
      if (found == nullptr || found->is_share) continue;
      CloseSnapshot(transaction, *found, NamedSnapshots::Cause::kRetained);
    }
  }
  return response;
}

void Namespace::DropShares(const v1::CheckSharesResponse& unknown) {
  DropUids(*state_, unknown.unknown()).IgnoreError();  // They have gone.
}

}  // namespace tensorkv
