#include "client/cluster/cluster_snapshots.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/placed_server.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Bounds how often a call goes to where the home has moved.
constexpr int kMostMovesOfHome = 4;

// Bounds how long a call waits for what its result does not depend on.
constexpr absl::Duration kLongestExtra = absl::Seconds(1);

bool IsOfNoSnapshot(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kSnapshotNotFound || reason == Reason::kSnapshotLost;
}

// Returns whether the server lacks a key of the snapshot, or all of it.
bool IsOfMissingPart(const absl::Status& status) {
  return ReasonOf(status) == Reason::kKeyNotFound || IsOfNoSnapshot(status) ||
         IsOfRemovedServer(status);
}

void SetNumber(uint64_t number, PullReply& reply) {
  reply.snapshot_number = number;
}
template <typename Reply>
void SetNumber(uint64_t number, Reply& reply) {
  reply.set_snapshot_number(number);
}

KnownSnapshot KnownBy(const v1::SnapshotStatus& status) {
  return {.series = status.series(),
          .number = status.number(),
          .uid = status.uid(),
          .servers = {status.servers().begin(), status.servers().end()}};
}

std::vector<Destination> DestinationsAt(
    absl::Span<const Destination> destinations,
    absl::Span<const size_t> places) {
  std::vector<Destination> of_share;
  if (destinations.empty()) return of_share;
  for (const size_t place : places) of_share.push_back(destinations[place]);
  return of_share;
}

absl::Status NoSuchKey(const KnownSnapshot& known, absl::string_view key) {
  return WithReason(absl::NotFoundError(absl::StrCat(
                        "key \"", key, "\": snapshot ", known.number,
                        " of series \"", known.series, "\" does not have it")),
                    Reason::kKeyNotFound, {{"key", key}});
}

// Adds the counts of a share to those of the others; there are none of all if
// one has none.
void AddCounts(const CreateSnapshotReply& share, CreateSnapshotRequest& total) {
  if (!total.has_num_keys()) return;
  if (share.has_num_keys()) {
    total.set_num_keys(total.num_keys() + share.num_keys());
    total.set_bytes(total.bytes() + share.bytes());
  } else {
    total.clear_num_keys();
    total.clear_bytes();
  }
}

// Returns a request to let go of the uids, in the namespace of `request`.
template <typename Request, typename Uids>
DeleteSnapshotRequest DropOf(const Request& request, const Uids& uids) {
  DeleteSnapshotRequest drop;
  drop.set_namespace_(request.namespace_());
  drop.set_series(request.series());
  drop.mutable_uids()->Assign(uids.begin(), uids.end());
  return drop;
}

// Returns the request of a step after the reservation. It needs no call id.
CreateSnapshotRequest StepOf(CreateSnapshotRequest::Step step,
                             const ClusterSnapshots::Publication& publication) {
  CreateSnapshotRequest request;
  request.set_namespace_(publication.terms.namespace_());
  request.set_namespace_uid(publication.terms.namespace_uid());
  request.set_series(publication.terms.series());
  request.set_step(step);
  request.set_number(publication.terms.number());
  request.set_uid(publication.uid);
  return request;
}

// Returns the servers that own partitions, `home` first.
std::vector<std::string> OwnersIn(const ClusterPlacement& placement,
                                  const std::string& home) {
  std::vector<std::string> owners = {home};
  for (uint32_t i = 0; i < placement.servers.size(); ++i) {
    const std::string& name = placement.servers[i].name;
    if (name == home || !absl::c_linear_search(placement.owners, i)) continue;
    owners.push_back(name);
  }
  return owners;
}

// Returns whether each server has a share of the partitions that it owns: then
// each key is in one.
bool AreOf(const ClusterPlacement& placement,
           const std::vector<std::string>& servers,
           const std::vector<CreateSnapshotReply>& shares) {
  for (size_t i = 0; i < servers.size(); ++i) {
    const auto server = absl::c_find_if(
        placement.servers,
        [&](const ClusterServer& each) { return each.name == servers[i]; });
    if (server == placement.servers.end()) return false;
    const std::vector<uint32_t> partitions = PartitionsOf(
        placement, static_cast<uint32_t>(server - placement.servers.begin()));
    if (shares[i].partitions() != DigestOf(partitions)) return false;
  }
  return true;
}

}  // namespace

// --- Taking ------------------------------------------------------------------

Task<absl::StatusOr<ClusterSnapshots::Publication>> ClusterSnapshots::Begin(
    const CreateSnapshotRequest& terms, int attempt, const CallLimit& limit) {
  CreateSnapshotRequest reserve = terms;
  reserve.set_step(CreateSnapshotRequest::RESERVE);
  NameAttempt("@", attempt + 1, reserve);
  CO_ASSIGN_OR_RETURN(const CreateSnapshotReply reserved,
                      co_await AtHome(reserve, limit));
  CO_ASSIGN_OR_RETURN(const auto home_first,
                      co_await servers_.HomeFirst(terms.namespace_(), limit));
  Publication publication = {.home = home_first.front(), .terms = terms};
  publication.terms.clear_call_id();
  publication.terms.set_number(reserved.number());
  publication.uid = reserved.uid();
  co_return publication;
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::Complete(
    const Publication& publication, const CallLimit& limit) {
  absl::StatusOr<Prepared> prepared = co_await Prepare(publication, limit);
  if (!prepared.ok()) {
    [[maybe_unused]] const absl::Status ended =
        co_await GiveUp(publication, limit);
    co_return prepared.status();
  }
  absl::StatusOr<CreateSnapshotReply> named =
      co_await Name(publication, *prepared, limit);
  if (!named.ok()) {
    // One that may be named stays, until the servers have asked the home.
    if (!MayHaveEffect(named.status())) {
      [[maybe_unused]] const absl::Status ended =
          co_await GiveUp(publication, limit);
    }
    co_return named;
  }
  const DeleteSnapshotRequest gone = DropOf(publication.terms, named->gone());
  named->clear_gone();
  CO_RETURN_IF_ERROR(
      co_await TellGone(AfterFirst(prepared->servers), gone, limit));
  co_return named;
}

Task<absl::StatusOr<ClusterSnapshots::Prepared>> ClusterSnapshots::Prepare(
    const Publication& publication, const CallLimit& limit) {
  CreateSnapshotRequest prepare =
      StepOf(CreateSnapshotRequest::PREPARE, publication);
  *prepare.mutable_prefixes() = publication.terms.prefixes();
  CreateSnapshotRequest keep = prepare;
  keep.set_has_share(true);
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  for (;;) {
    Prepared prepared = {.servers = OwnersIn(*placement, publication.home)};
    const auto ask = [&](size_t i, const CallLimit& of_share) {
      const std::string& server = prepared.servers[i];
      const bool has_share = publication.published_by.contains(server);
      return servers_.At(server, has_share ? keep : prepare, of_share);
    };
    auto replies =
        co_await servers_.template AtOnce<absl::StatusOr<CreateSnapshotReply>>(
            prepared.servers.size(), limit, ask);
    absl::StatusOr<std::vector<CreateSnapshotReply>> shares =
        AllOf(std::move(replies));
    if (!shares.ok() && !IsAtWrongServer(shares.status())) {
      co_return shares.status();
    }
    if (shares.ok() && AreOf(*placement, prepared.servers, *shares)) {
      prepared.shares = *std::move(shares);
      co_return prepared;
    }
    CO_ASSIGN_OR_RETURN(PlacementPtr newest,
                        co_await servers_.NewerThan(placement, 0, limit));
    if (newest->version == placement->version) {
      co_return absl::AbortedError(absl::StrCat(
          "series \"", publication.terms.series(),
          "\": partitions of the cluster have moved since the snapshot began"));
    }
    placement = std::move(newest);
  }
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::Name(
    const Publication& publication, const Prepared& prepared,
    const CallLimit& limit) {
  CreateSnapshotRequest name = StepOf(CreateSnapshotRequest::NAME, publication);
  *name.mutable_metadata() = publication.terms.metadata();
  if (publication.terms.has_time_to_live()) {
    *name.mutable_time_to_live() = publication.terms.time_to_live();
  }
  name.set_keep_last(publication.terms.keep_last());
  name.set_num_keys(0);
  name.set_bytes(0);
  for (size_t i = 0; i < prepared.shares.size(); ++i) {
    const CreateSnapshotReply& reply = prepared.shares[i];
    CreateSnapshotRequest::Share& share = *name.add_shares();
    share.set_server(prepared.servers[i]);
    share.set_incarnation(reply.incarnation());
    share.set_revision(reply.revision());
    AddCounts(reply, name);
  }
  co_return co_await servers_.At(prepared.servers.front(), name, limit);
}

Task<absl::Status> ClusterSnapshots::GiveUp(const Publication& publication,
                                            const CallLimit& limit) {
  // The caller's time may be over, or he may have cancelled.
  const CallLimit of_extra(CallOptions{.timeout = kLongestExtra},
                           limit.threads);
  const std::vector<uint64_t> uids = {publication.uid};
  const DeleteSnapshotRequest drop = DropOf(publication.terms, uids);
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(of_extra));
  const std::vector<std::string> servers =
      OwnersIn(*placement, publication.home);
  co_return co_await TellGone(servers, drop, of_extra);
}

bool ClusterSnapshots::MayBeginAgain(const CreateSnapshotRequest& terms,
                                     const absl::Status& why) {
  // Somebody else has published meanwhile.
  if (ReasonOf(why) == Reason::kSnapshotNumberPassed) {
    return !terms.has_number();
  }
  // The home has moved, or was started anew; or partitions have moved.
  return IsOfNoSnapshot(why) || IsAtWrongServer(why) || absl::IsAborted(why);
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::Create(
    const CreateSnapshotRequest& terms, const CallLimit& limit) {
  for (int attempt = 0;; ++attempt) {
    CO_ASSIGN_OR_RETURN(const Publication publication,
                        co_await Begin(terms, attempt, limit));
    const absl::StatusOr<CreateSnapshotReply> taken =
        co_await Complete(publication, limit);
    const bool begins_again = !taken.ok() && attempt + 1 < kMostAttempts &&
                              MayBeginAgain(terms, taken.status());
    if (!begins_again) co_return taken;
  }
}

Task<absl::Status> ClusterSnapshots::TellGone(
    absl::Span<const std::string> servers, const DeleteSnapshotRequest& gone,
    const CallLimit& limit) {
  if (gone.uids().empty()) co_return absl::OkStatus();
  const CallLimit of_extra = limit.Within(kLongestExtra);
  // Who does not hear it will ask.
  [[maybe_unused]] const auto replies =
      co_await servers_.AtEach(servers, gone, of_extra);
  co_return absl::OkStatus();
}

// --- Reading -----------------------------------------------------------------

Task<absl::StatusOr<KnownSnapshot>> ClusterSnapshots::Resolve(
    const std::string& name_space, const SnapshotReference& at,
    const CallLimit& limit) {
  const std::optional<KnownSnapshot> found = known_.Find(name_space, at);
  if (found) co_return *found;
  DescribeSnapshotRequest describe;
  describe.set_namespace_(name_space);
  *describe.mutable_at() = at;
  CO_ASSIGN_OR_RETURN(const DescribeSnapshotReply reply,
                      co_await AtHome(describe, limit));
  const KnownSnapshot known = KnownBy(reply.snapshot());
  known_.Learn(name_space, known);
  co_return known;
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterSnapshots::Read(
    const Request& request, const CallLimit& limit) {
  const std::string& name_space = NamespaceIn(request);
  CO_ASSIGN_OR_RETURN(
      const KnownSnapshot known,
      co_await Resolve(name_space, *SnapshotIn(request), limit));
  Request made = request;
  SetSnapshot(known.reference(), made);
  if (known.servers.empty()) {
    CO_ASSIGN_OR_RETURN(const auto home_first,
                        co_await servers_.HomeFirst(name_space, limit));
    co_return co_await servers_.At(home_first.front(), made, limit,
                                   limit.destinations);
  }
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  const CallShares<Request> call(made);
  std::vector<CallShare> shares = call.Cut(*placement, call.AllPlaces());
  Reading<Request> reading;
  std::erase_if(shares, [&](const CallShare& share) {
    if (absl::c_linear_search(known.servers, share.server)) return false;
    absl::c_copy(share.places, std::back_inserter(reading.missing));
    return true;
  });
  CO_RETURN_IF_ERROR(co_await ReadShares(call, shares, limit, reading));
  if (!reading.missing.empty()) {
    const std::vector<size_t> missing = std::exchange(reading.missing, {});
    CO_ASSIGN_OR_RETURN(const std::vector<CallShare> elsewhere,
                        co_await Locate(made, known, missing, limit));
    CO_RETURN_IF_ERROR(co_await ReadShares(call, elsewhere, limit, reading));
    // One has gone since it was located.
    if (!reading.missing.empty()) {
      co_return co_await WhyLost(name_space, known, "", limit);
    }
  }
  SetNumber(known.number, reading.reply);
  co_return std::move(reading.reply);
}

template <typename Request>
Task<absl::Status> ClusterSnapshots::ReadShares(
    const CallShares<Request>& call, const std::vector<CallShare>& shares,
    const CallLimit& limit, Reading<Request>& reading) {
  std::vector<Request> requests;
  std::vector<std::vector<Destination>> destinations;
  for (const CallShare& share : shares) {
    requests.push_back(call.Share(share.places));
    destinations.push_back(DestinationsAt(limit.destinations, share.places));
  }
  const auto read = [&](size_t i, const CallLimit& of_share) {
    return servers_.At(shares[i].server, requests[i], of_share,
                       destinations[i]);
  };
  auto answers =
      co_await servers_.template AtOnce<absl::StatusOr<ReplyTo<Request>>>(
          shares.size(), limit, read);
  std::vector<absl::Status> errors;
  for (size_t i = 0; i < shares.size(); ++i) {
    const std::vector<size_t>& places = shares[i].places;
    if (answers[i].ok()) {
      errors.push_back(
          call.JoinReply(*std::move(answers[i]), places, reading.reply));
    } else if (IsOfMissingPart(answers[i].status())) {
      absl::c_copy(places, std::back_inserter(reading.missing));
    } else {
      errors.push_back(answers[i].status());
    }
  }
  co_return MostActionableError(errors);
}

template <typename Request>
Task<absl::StatusOr<std::vector<CallShare>>> ClusterSnapshots::Locate(
    const Request& request, const KnownSnapshot& known,
    absl::Span<const size_t> missing, const CallLimit& limit) {
  const auto& entries = EntriesIn(request);
  StatRequest stat;
  stat.set_namespace_(NamespaceIn(request));
  stat.set_allow_missing(true);
  SetSnapshot(known.reference(), stat);
  for (const size_t place : missing) stat.add_keys(KeyIn(entries[place]));
  CO_ASSIGN_OR_RETURN(const std::vector<StatReply> replies,
                      co_await AskAll(stat, known, limit));
  absl::flat_hash_map<absl::string_view, size_t> server_of;
  for (size_t i = 0; i < replies.size(); ++i) {
    for (const KeyStatus& key : replies[i].keys()) server_of[key.key()] = i;
  }
  std::vector<CallShare> shares(known.servers.size());
  for (const size_t place : missing) {
    const auto found = server_of.find(KeyIn(entries[place]));
    if (found == server_of.end()) {
      co_return NoSuchKey(known, KeyIn(entries[place]));
    }
    shares[found->second].server = known.servers[found->second];
    shares[found->second].places.push_back(place);
  }
  std::erase_if(shares,
                [](const CallShare& share) { return share.places.empty(); });
  co_return shares;
}

template <typename Request>
Task<absl::StatusOr<std::vector<ReplyTo<Request>>>> ClusterSnapshots::AskAll(
    const Request& request, const KnownSnapshot& known,
    const CallLimit& limit) {
  auto replies = co_await servers_.AtEach(known.servers, request, limit);
  for (size_t i = 0; i < replies.size(); ++i) {
    const absl::Status& status = replies[i].status();
    if (!IsOfNoSnapshot(status) && !IsOfRemovedServer(status)) continue;
    co_return co_await WhyLost(NamespaceIn(request), known, known.servers[i],
                               limit);
  }
  co_return AllOf(std::move(replies));
}

Task<absl::StatusOr<ListReply>> ClusterSnapshots::List(
    const ListRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(
      const KnownSnapshot known,
      co_await Resolve(request.namespace_(), request.at(), limit));
  ListRequest made = request;
  SetSnapshot(known.reference(), made);
  if (known.servers.empty()) co_return co_await AtHome(made, limit);
  CO_ASSIGN_OR_RETURN(std::vector<ListReply> pages,
                      co_await AskAll(made, known, limit));
  ListReply page = MergePages(std::move(pages), request.page_size());
  page.set_snapshot_number(known.number);
  co_return page;
}

Task<absl::Status> ClusterSnapshots::WhyLost(const std::string& name_space,
                                             const KnownSnapshot& known,
                                             const std::string& server,
                                             const CallLimit& limit) {
  known_.Forget(name_space, known.series);
  DescribeSnapshotRequest describe;
  describe.set_namespace_(name_space);
  *describe.mutable_at() = known.reference();
  CO_RETURN_IF_ERROR(co_await AtHome(describe, limit));
  *describe.mutable_at() = LatestSnapshot(known.series);
  const absl::StatusOr<DescribeSnapshotReply> latest =
      co_await AtHome(describe, limit);
  co_return WithReason(
      absl::NotFoundError(absl::StrCat(
          "snapshot ", known.number, " of series \"", known.series,
          "\": server \"", server, "\" has let go of its part, or was lost")),
      Reason::kSnapshotLost,
      {{"series", known.series},
       {"number", known.number},
       {"latest", latest.ok() ? latest->snapshot().number() : known.number},
       {"cause", "retained"}});
}

// --- What there is -----------------------------------------------------------

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterSnapshots::AtHome(
    const Request& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  const std::string& name_space = NamespaceIn(request);
  for (int attempt = 1;; ++attempt) {
    const std::string home =
        placement->servers[OwnerOf(*placement, name_space, "")].name;
    const absl::StatusOr<ReplyTo<Request>> reply =
        co_await servers_.At(home, request, limit);
    const bool has_moved = IsAtWrongServer(reply.status());
    const bool may_have_moved = has_moved || IsOfNoSnapshot(reply.status());
    if (!may_have_moved || attempt == kMostMovesOfHome) co_return reply;
    const uint64_t told = VersionToldBy({reply.status()});
    absl::StatusOr<PlacementPtr> newest = placement;
    if (has_moved) {
      newest = co_await servers_.NewerThan(placement, told, limit);
    } else {
      newest = co_await servers_.Refresh(limit);
    }
    // Where nobody answers, all stays as it is known.
    if (!newest.ok()) co_return reply;
    const std::string& next =
        (*newest)->servers[OwnerOf(**newest, name_space, "")].name;
    if (next == home) co_return reply;
    placement = *newest;
  }
}

Task<absl::StatusOr<DescribeSnapshotReply>> ClusterSnapshots::Make(
    const DescribeSnapshotRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(DescribeSnapshotReply reply,
                      co_await AtHome(request, limit));
  const KnownSnapshot known = KnownBy(reply.snapshot());
  if (known.servers.empty()) co_return reply;
  CO_ASSIGN_OR_RETURN(const auto home_first,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  std::vector<std::string> others = known.servers;
  std::erase(others, home_first.front());
  DescribeSnapshotRequest of_share = request;
  *of_share.mutable_at() = known.reference();
  const CallLimit of_extra = limit.Within(kLongestExtra);
  const auto shares = co_await servers_.AtEach(others, of_share, of_extra);
  for (const auto& share : shares) {
    if (!share.ok()) continue;
    reply.set_retained_bytes(reply.retained_bytes() + share->retained_bytes());
  }
  co_return reply;
}

Task<absl::StatusOr<DeleteSnapshotReply>> ClusterSnapshots::Make(
    const DeleteSnapshotRequest& request, const CallLimit& limit) {
  known_.Forget(request.namespace_(), request.series());
  CO_ASSIGN_OR_RETURN(DeleteSnapshotReply reply,
                      co_await AtHome(request, limit));
  const DeleteSnapshotRequest gone = DropOf(request, reply.gone());
  reply.clear_gone();
  CO_ASSIGN_OR_RETURN(const auto home_first,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  CO_RETURN_IF_ERROR(co_await TellGone(AfterFirst(home_first), gone, limit));
  co_return reply;
}

// They are called from elsewhere.
template Task<absl::StatusOr<PullReply>> ClusterSnapshots::Read(
    const PullRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<PullReply>> ClusterSnapshots::Read(
    const PullRowsRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<StatReply>> ClusterSnapshots::Read(
    const StatRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::AtHome(
    const CreateSnapshotRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ListSnapshotsReply>> ClusterSnapshots::AtHome(
    const ListSnapshotsRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<LeaseSnapshotReply>> ClusterSnapshots::AtHome(
    const LeaseSnapshotRequest& request, const CallLimit& limit);

}  // namespace tensorkv
