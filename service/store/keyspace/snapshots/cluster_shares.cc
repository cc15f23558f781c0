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
        Reason::kWrongServer,
        {{"key", ""},
         {"placement_version", state.Owned()->placement_version()}});
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
  state.changes.Record(ChangeKind::kSnapshot, series.name, number,
                       transaction.revision());
  const CreateSnapshotReply reply = NamedReply(share);
  TrimSeries(transaction, series);
  Wake(transaction, SnapshotTopic(series.name));
  SetSnapshotAlarm(state);
  return reply;
}

// What goes of the uids that are to go.
enum class Going { kSharesAlone, kAll };

// Lets go of the shares and snapshots of these uids, and of what is reserved
// for them: they are lost, so the latest of a series stays so. Returns how many
// there were. Errors: why the namespace has gone.
absl::StatusOr<uint64_t> CloseUids(NamespaceState& state,
                                   absl::Span<const uint64_t> uids,
                                   Going going) {
  uint64_t num_closed = 0;
  for (size_t i = 0; i < uids.size(); i += kSnapshotsPerLock) {
    Transaction transaction(state);
    RETURN_IF_ERROR(state.gone);
    for (const uint64_t uid : uids.subspan(i, kSnapshotsPerLock)) {
      NamedSnapshot* const found = state.named->FindUid(uid);
      // Nobody knows the uids of parts.
      const bool is_part = found != nullptr && found->parts != nullptr;
      if (going == Going::kSharesAlone && is_part) continue;
      state.named->reserved().GiveBack(uid);
      if (found == nullptr) continue;
      if (going == Going::kSharesAlone && !found->is_share) continue;
      CloseSnapshot(transaction, *found, NamedSnapshots::Cause::kShareLost);
      ++num_closed;
    }
  }
  return num_closed;
}

// Lets go of snapshots that the series has named, and of what waits for parts.
// Returns whether these were all: then it has no latest one, and its numbers go
// on.
bool CloseSome(Transaction& transaction, Series& series) {
  for (size_t i = 0; MayLetGo(transaction, i); ++i) {
    NamedSnapshot* next = nullptr;
    if (!series.incomplete.empty()) {
      next = series.incomplete.begin()->second->parts().begin()->second;
    } else if (!series.snapshots.empty()) {
      next = &series.snapshots.begin()->second;
    }
    if (next == nullptr) break;
    CloseSnapshot(transaction, *next, NamedSnapshots::Cause::kShareLost);
  }
  if (!series.incomplete.empty() || !series.snapshots.empty()) return false;
  series.latest = 0;
  series.latest_servers.clear();
  return true;
}

using Uids = google::protobuf::RepeatedField<uint64_t>;

// Returns those of the uids that `is_there` denies, but for those of lockings
// of the mutex in which `may_say` is false. Both are called with it held.
Uids MissingOf(const NamespaceState& state, absl::Span<const uint64_t> uids,
               absl::FunctionRef<bool()> may_say,
               absl::FunctionRef<bool(uint64_t uid)> is_there) {
  Uids missing;
  for (size_t i = 0; i < uids.size(); i += kKeysPerLock) {
    MutexLock lock(&state.mutex);
    if (!may_say()) continue;
    for (const uint64_t uid : uids.subspan(i, kKeysPerLock)) {
      if (!is_there(uid)) missing.Add(uid);
    }
  }
  return missing;
}

using UidsByServer = std::map<std::string, std::vector<uint64_t>>;

// Adds the shares of some snapshots after revision `*last`, which becomes that
// of the last of these. Returns whether there may be more.
bool AddShares(const NamedSnapshots& named, uint64_t* last,
               UidsByServer& by_server) {
  for (size_t num_looks = 0; num_looks < kKeysPerLock; ++num_looks) {
    const std::vector<uint64_t> next = named.UidsAfter(last, 1);
    if (next.empty()) return false;
    const NamedSnapshot& snapshot = *named.FindUid(next.front());
    for (const ServerShare& share : snapshot.servers) {
      by_server[share.server].push_back(snapshot.uid);
    }
    num_looks += snapshot.servers.size();
  }
  return true;
}

}  // namespace

absl::StatusOr<CreateSnapshotReply> ReserveNumber(NamespaceState& state,
                                                  SnapshotTerms terms,
                                                  absl::Duration timeout) {
  terms.uid = NewSnapshotUid();
  Transaction transaction(state);
  RETURN_IF_ERROR(CheckOwnsHome(state));
  RETURN_IF_ERROR(CheckCanTake(transaction, terms));
  CreateSnapshotReply reply;
  reply.set_uid(terms.uid);
  const std::string series = terms.series;
  RETURN_IF_ERROR(state.named->Reserve(
      std::move(terms), state.Now() + std::clamp(timeout, kShortestReservation,
                                                 kLongestReservation)));
  reply.set_number(state.named->Find(series)->last_number);
  return reply;
}

absl::StatusOr<SnapshotReference> PrepareShare(NamespaceState& state,
                                               SnapshotTerms terms, bool has) {
  Transaction transaction(state);
  SnapshotReference reference = SnapshotOf(terms.series, *terms.number);
  reference.set_uid(terms.uid);
  NamedSnapshot* share = state.named->FindUid(terms.uid);
  if (share == nullptr || share->parts != nullptr ||
      share->series->name != terms.series) {
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
  if (found == nullptr || found->series != series || found->parts != nullptr) {
    return NoSuchSnapshot(*series, request.number(), request.uid());
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
  return CloseUids(state, uids, Going::kSharesAlone);
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
    const bool is_named =
        found != nullptr && (!found->is_share || found->parts != nullptr);
    return is_named || state.named->reserved().Find(uid, now);
  };
  // Another home may have reserved, and named, since this one has closed.
  const auto is_home = [&] { return CheckIsHome(state).ok(); };
  *response.mutable_unknown() =
      MissingOf(state, request.uids(), is_home, is_expected);
  return response;
}

void Namespace::DropShares(const v1::CheckSharesResponse& unknown) {
  // A home that is none any more may have named some. They may have gone.
  CloseUids(*state_, unknown.unknown(), Going::kAll).IgnoreError();
}

std::vector<v1::FindSharesRequest> Namespace::SharesToFind() const {
  const NamespaceState& state = *state_;
  UidsByServer by_server;
  uint64_t last = 0;
  for (bool has_more = true; has_more;) {
    MutexLock lock(&state.mutex);
    has_more = AddShares(*state.named, &last, by_server);
  }
  std::vector<v1::FindSharesRequest> requests;
  for (const auto& [server, uids] : by_server) {
    const absl::Span<const uint64_t> all(uids);
    for (size_t i = 0; i < all.size(); i += kKeysPerLock) {
      const absl::Span<const uint64_t> some = all.subspan(i, kKeysPerLock);
      v1::FindSharesRequest& request = requests.emplace_back();
      request.set_server(server);
      request.set_namespace_(state.name);
      request.set_namespace_uid(state.uid);
      request.mutable_uids()->Add(some.begin(), some.end());
    }
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
  *response.mutable_missing() = MissingOf(
      state, request.uids(), [] { return true; }, is_there);
  return response;
}

void Namespace::CloseLost(const v1::FindSharesResponse& missing) {
  // They may have gone.
  CloseUids(*state_, missing.missing(), Going::kAll).IgnoreError();
}

void Namespace::CloseSeries() {
  std::string last;
  for (;;) {
    Transaction transaction(*state_);
    NamedSnapshots& named = *state_->named;
    named.reserved().EndAll();
    const auto next = named.series().upper_bound(last);
    if (next == named.series().end()) return;
    if (CloseSome(transaction, *named.Find(next->first))) last = next->first;
  }
}

}  // namespace tensorkv
