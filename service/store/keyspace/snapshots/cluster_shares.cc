#include "service/store/keyspace/snapshots/cluster_shares.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
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

absl::Status CheckServers(const NamespaceState& state,
                          const CreateSnapshotRequest& request) {
  const auto owned = state.Owned();
  const size_t most = owned == nullptr ? 0 : owned->num_partitions();
  std::set<absl::string_view> servers;
  for (const auto& share : request.shares()) {
    if (share.server().size() <= kMaxNamespaceBytes) {
      servers.insert(share.server());
    }
  }
  const auto num_shares = static_cast<size_t>(request.shares_size());
  if (num_shares <= most && servers.size() == num_shares) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("shares: expected those of at most ", most,
                   " servers, each once, with names of ", kMaxNamespaceBytes,
                   " bytes, got others"));
}

// Checks that no other server is the home, or is to be it.
absl::Status CheckOwnsHome(const NamespaceState& state) {
  RETURN_IF_ERROR(CheckTakesShares(state));
  if (!state.Owned()->Has(state.name, "")) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "another server is the home of namespace ", Quoted(state.name))),
        Reason::kWrongServer, {{"key", ""}});
  }
  return CheckGivesNumbers(state);
}

absl::Status NumberPassed(const Series& series, uint64_t number) {
  return WithReason(
      absl::FailedPreconditionError(
          absl::StrCat("series ", Quoted(series.name),
                       ": its latest snapshot, ", series.latest, ", is above ",
                       number, ", or has a later share of a server")),
      Reason::kSnapshotNumberPassed,
      {{"series", series.name}, {"number", number}, {"latest", series.latest}});
}

CreateSnapshotReply NamedReply(const NamedSnapshot& snapshot) {
  CreateSnapshotReply reply;
  SetReply(snapshot, &reply);
  return reply;
}

// What a NAME gives to a share.
struct Naming {
  static absl::StatusOr<Naming> Create(const NamespaceState& state,
                                       const CreateSnapshotRequest& request) {
    RETURN_IF_ERROR(CheckServers(state, request));
    ASSIGN_OR_RETURN(SnapshotTerms terms, TermsOf(request));
    Naming naming = {.terms = std::move(terms)};
    for (const auto& share : request.shares()) {
      naming.servers.push_back(
          {share.server(), share.incarnation(), share.revision()});
    }
    return naming;
  }

  SnapshotTerms terms;
  std::vector<ServerShare> servers;
};

// Returns whether a server's share is older than its share among `latest`.
bool HasOlderThan(const std::vector<ServerShare>& latest,
                  const std::vector<ServerShare>& shares) {
  std::map<absl::string_view, const ServerShare*> by_server;
  for (const ServerShare& share : latest) by_server[share.server] = &share;
  return std::any_of(shares.begin(), shares.end(),
                     [&](const ServerShare& share) {
                       const auto it = by_server.find(share.server);
                       return it != by_server.end() &&
                              it->second->incarnation == share.incarnation &&
                              share.revision < it->second->revision;
                     });
}

// Returns the number that the share gets. Errors: NotFound · FailedPrecondition
// (SNAPSHOT_NUMBER_PASSED).
absl::StatusOr<uint64_t> NumberOf(Transaction& transaction,
                                  const std::vector<ServerShare>& servers,
                                  NamedSnapshot& share) {
  NamespaceState& state = transaction.state();
  Series& series = *share.series;
  const auto* const reserved =
      state.named->reserved().Find(share.uid, state.Now());
  if (reserved == nullptr) {
    const uint64_t number = share.number;
    state.named->reserved().GiveBack(share.uid);
    CloseSnapshot(transaction, share, NamedSnapshots::Cause::kExpired);
    return NoSuchSnapshot(series, number);
  }
  const bool is_passed = reserved->number < series.latest;
  if (HasOlderThan(series.latest_servers, servers) ||
      (is_passed && reserved->is_asked_for)) {
    return NumberPassed(series, reserved->number);
  }
  return is_passed ? series.last_number + 1 : reserved->number;
}

// Names the share, which is there. Returns its reply.
absl::StatusOr<CreateSnapshotReply> NameNow(
    Transaction& transaction, const CreateSnapshotRequest& request,
    Naming naming, NamedSnapshot& share) {
  NamespaceState& state = transaction.state();
  Series& series = *share.series;
  ASSIGN_OR_RETURN(const uint64_t number,
                   NumberOf(transaction, naming.servers, share));
  if (!share.is_ready) {
    return absl::FailedPreconditionError(
        absl::StrCat("series ", Quoted(series.name), ": expected the share of ",
                     number, " to be complete, effects of it are under way"));
  }
  const BytesNeeded more = {
      .host = NamedSnapshots::BytesOf(naming.terms.metadata, naming.servers)};
  MakeRoom(transaction, more);
  if (state.named->FindUid(request.uid()) == nullptr) {
    return ShareIsLost(state, naming.terms);
  }
  RETURN_IF_ERROR(CheckRoom(state, more));
  if (request.has_num_keys()) share.num_keys = request.num_keys();
  if (request.has_bytes()) share.bytes = request.bytes();
  share.servers = std::move(naming.servers);
  state.named->Name(share, number, std::move(naming.terms), more.host,
                    state.Now());
  const CreateSnapshotReply reply = NamedReply(share);
  TrimSeries(transaction, series);
  Wake(transaction, SnapshotTopic(series.name));
  WatchSnapshots(state);
  return reply;
}

// Lets go of the shares and snapshots of these uids, and of what is reserved
// for them. Returns how many there were. Errors: why the namespace has gone.
absl::StatusOr<uint64_t> CloseUids(NamespaceState& state,
                                   absl::Span<const uint64_t> uids,
                                   NamedSnapshots::Cause cause) {
  uint64_t num_closed = 0;
  for (size_t i = 0; i < uids.size(); i += kSnapshotsPerLock) {
    Transaction transaction(state);
    RETURN_IF_ERROR(state.gone);
    for (const uint64_t uid : uids.subspan(i, kSnapshotsPerLock)) {
      state.named->reserved().GiveBack(uid);
      NamedSnapshot* const found = state.named->FindUid(uid);
      if (found == nullptr) continue;
      CloseSnapshot(transaction, *found, cause);
      ++num_closed;
    }
  }
  return num_closed;
}

using Uids = google::protobuf::RepeatedField<uint64_t>;

// Returns those of the uids that `is_there`, called with the mutex held,
// denies.
Uids MissingOf(const NamespaceState& state, absl::Span<const uint64_t> uids,
               absl::FunctionRef<bool(uint64_t uid)> is_there) {
  Uids missing;
  for (size_t i = 0; i < uids.size(); i += kKeysPerLock) {
    MutexLock lock(&state.mutex);
    for (const uint64_t uid : uids.subspan(i, kKeysPerLock)) {
      if (!is_there(uid)) missing.Add(uid);
    }
  }
  return missing;
}

}  // namespace

absl::StatusOr<CreateSnapshotReply> ReserveNumber(NamespaceState& state,
                                                  SnapshotTerms terms,
                                                  absl::Duration timeout) {
  Transaction transaction(state);
  RETURN_IF_ERROR(CheckOwnsHome(state));
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

absl::StatusOr<SnapshotReference> PrepareShare(NamespaceState& state,
                                               SnapshotTerms terms, bool has) {
  Transaction transaction(state);
  SnapshotReference reference = SnapshotOf(terms.series, *terms.number);
  reference.set_uid(terms.uid);
  NamedSnapshot* share = state.named->FindUid(terms.uid);
  if (share == nullptr || share->series->name != terms.series) {
    if (has) return ShareIsLost(state, terms);
    RETURN_IF_ERROR(CheckCanTake(transaction, terms));
    TakeSnapshot(transaction, std::move(terms), nullptr);
    share = state.named->FindUid(reference.uid());
  }
  share->is_sealed = true;
  return reference;
}

absl::StatusOr<CreateSnapshotReply> NameShare(
    NamespaceState& state, const CreateSnapshotRequest& request) {
  ASSIGN_OR_RETURN(Naming naming, Naming::Create(state, request));
  Transaction transaction(state);
  RETURN_IF_ERROR(state.gone);
  RETURN_IF_ERROR(CheckOwnsHome(state));
  Series* const series = state.named->Find(request.series());
  if (series == nullptr) return NoSuchSeries(request.series());
  NamedSnapshot* const found = state.named->FindUid(request.uid());
  if (found == nullptr || found->series != series) {
    return NoSuchSnapshot(*series, request.number());
  }
  // One that is named has been so by this call, whose answer was lost.
  absl::StatusOr<CreateSnapshotReply> reply =
      found->is_share ? NameNow(transaction, request, std::move(naming), *found)
                      : NamedReply(*found);
  if (!reply.ok()) return reply;
  for (const uint64_t uid : GoneUids(*series)) reply->add_gone(uid);
  return reply;
}

absl::StatusOr<uint64_t> DropUids(NamespaceState& state,
                                  absl::Span<const uint64_t> uids) {
  return CloseUids(state, uids, NamedSnapshots::Cause::kDeleted);
}

std::vector<uint64_t> GoneUids(const Series& series) {
  std::vector<uint64_t> uids;
  for (const Series::Lost& lost : series.lost) uids.push_back(lost.uid);
  return uids;
}

absl::Status CheckTakesShares(const NamespaceState& state) {
  if (state.Owned() != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "namespace ", Quoted(state.name),
      ": expected one whose keys are on several servers, for a share of a "
      "snapshot, got one that is whole on each server"));
}

absl::Status ShareIsLost(const NamespaceState& state,
                         const SnapshotTerms& terms) {
  const Series* const series = state.named->Find(terms.series);
  const uint64_t number = terms.number.value_or(0);
  return WithReason(absl::NotFoundError(absl::StrCat(
                        "the share of snapshot ", number, " of series ",
                        Quoted(terms.series), " was let go")),
                    Reason::kSnapshotLost,
                    {{"series", terms.series},
                     {"number", number},
                     {"latest", series == nullptr ? 0 : series->latest},
                     {"cause", "retained"}});
}

// --- Whether they are named, and there ---------------------------------------

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
    }
    has_more = request.uids_size() == kKeysPerLock;
    if (!request.uids().empty()) requests.push_back(std::move(request));
  }
  return requests;
}

v1::CheckSharesResponse Namespace::CheckShares(
    const v1::CheckSharesRequest& request) const {
  const NamespaceState& state = *state_;
  v1::CheckSharesResponse response;
  const auto is_expected = [&, now = state.Now()](uint64_t uid) {
    const NamedSnapshot* const found = state.named->FindUid(uid);
    const bool is_named = found != nullptr && !found->is_share;
    return is_named || state.named->reserved().Find(uid, now);
  };
  *response.mutable_unknown() = MissingOf(state, request.uids(), is_expected);
  return response;
}

void Namespace::DropShares(const v1::CheckSharesResponse& unknown) {
  DropUids(*state_, unknown.unknown()).IgnoreError();  // They have gone.
}

std::vector<v1::FindSharesRequest> Namespace::SharesToFind() const {
  const NamespaceState& state = *state_;
  std::map<std::string, v1::FindSharesRequest> by_server;
  uint64_t last = 0;
  for (bool has_more = true; has_more;) {
    MutexLock lock(&state.mutex);
    const std::vector<uint64_t> uids =
        state.named->UidsAfter(&last, kKeysPerLock);
    has_more = uids.size() == kKeysPerLock;
    for (const uint64_t uid : uids) {
      for (const ServerShare& share : state.named->FindUid(uid)->servers) {
        by_server[share.server].add_uids(uid);
      }
    }
  }
  std::vector<v1::FindSharesRequest> requests;
  for (auto& [server, request] : by_server) {
    request.set_server(server);
    request.set_namespace_(state.name);
    request.set_namespace_uid(state.uid);
    requests.push_back(std::move(request));
  }
  return requests;
}

v1::FindSharesResponse Namespace::FindShares(
    const v1::FindSharesRequest& request) const {
  const NamespaceState& state = *state_;
  v1::FindSharesResponse response;
  const auto is_there = [&](uint64_t uid) {
    return state.named->FindUid(uid) != nullptr;
  };
  *response.mutable_missing() = MissingOf(state, request.uids(), is_there);
  return response;
}

void Namespace::CloseLost(const v1::FindSharesResponse& missing) {
  CloseUids(*state_, missing.missing(), NamedSnapshots::Cause::kShareLost)
      .IgnoreError();  // They have gone.
}

}  // namespace tensorkv
