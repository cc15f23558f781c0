#include "client/cluster/cluster_snapshots.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/placed_server.h"
#include "client/cluster/read_layouts.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "contract/reason.h"
#include "contract/snapshot_references.h"

namespace tensorkv {
namespace {

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

absl::Status NoSuchKey(const KnownSnapshot& known, absl::string_view key) {
  return WithReason(absl::NotFoundError(absl::StrCat(
                        "key \"", key, "\": snapshot ", known.number,
                        " of series \"", known.series, "\" does not have it")),
                    Reason::kKeyNotFound, {{"key", key}});
}

}  // namespace

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
                      co_await servers_.AtHome(describe, limit));
  const KnownSnapshot known = KnownBy(reply.snapshot());
  known_.Learn(name_space, known);
  co_return known;
}

Task<absl::StatusOr<SplitLayoutsPtr>> ClusterSnapshots::Layouts(
    const std::string& name_space, const SnapshotReference& at,
    const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  if (placement->split_bytes == 0) co_return nullptr;
  CO_ASSIGN_OR_RETURN(KnownSnapshot known,
                      co_await Resolve(name_space, at, limit));
  if (known.layouts != nullptr) co_return known.layouts;
  ListRequest request;
  request.set_namespace_(name_space);
  SetSnapshot(known.reference(), request);
  const auto list = [&](const ListRequest& page) { return List(page, limit); };
  Task<absl::StatusOr<SplitLayoutsPtr>> read =
      ReadLayouts(std::move(request), list);
  CO_ASSIGN_OR_RETURN(known.layouts, co_await read);
  known_.Learn(name_space, known);
  co_return known.layouts;
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterSnapshots::Read(
    const Request& request, const CallLimit& limit) {
  const std::string& name_space = NamespaceIn(request);
  CO_ASSIGN_OR_RETURN(
      const KnownSnapshot known,
      co_await Resolve(name_space, *SnapshotIn(request), limit));
  const SnapshotReference at = known.reference();
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                      co_await Layouts(name_space, at, limit));
  Request made = request;
  SetSnapshot(known.reference(), made);
  CO_ASSIGN_OR_RETURN(auto call, CallShares<Request>::Create(
                                     made, layouts.get(), limit.destinations));
  ReplyTo<Request> reply;
  if (known.servers.empty()) {
    CO_ASSIGN_OR_RETURN(const auto home_first,
                        co_await servers_.HomeFirst(name_space, limit));
    CO_ASSIGN_OR_RETURN(
        reply, co_await servers_.At(home_first.front(), call.made(), limit,
                                    call.destinations()));
  } else {
    CO_ASSIGN_OR_RETURN(reply, co_await ReadPieces(call, known, limit));
  }
  co_return call.Whole(std::move(reply));
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterSnapshots::ReadPieces(
    const CallShares<Request>& call, const KnownSnapshot& known,
    const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
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
                        co_await Locate(call.made(), known, missing, limit));
    CO_RETURN_IF_ERROR(co_await ReadShares(call, elsewhere, limit, reading));
    // One has gone since it was located.
    if (!reading.missing.empty()) {
      co_return co_await WhyLost(call.name_space(), known, "", limit);
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
    destinations.push_back(call.DestinationsAt(share.places));
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
  if (known.servers.empty()) co_return co_await servers_.AtHome(made, limit);
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
  CO_RETURN_IF_ERROR(co_await servers_.AtHome(describe, limit));
  *describe.mutable_at() = LatestSnapshot(known.series);
  const absl::StatusOr<DescribeSnapshotReply> latest =
      co_await servers_.AtHome(describe, limit);
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

Task<absl::StatusOr<DescribeSnapshotReply>> ClusterSnapshots::Make(
    const DescribeSnapshotRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(DescribeSnapshotReply reply,
                      co_await servers_.AtHome(request, limit));
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
                      co_await servers_.AtHome(request, limit));
  CO_ASSIGN_OR_RETURN(const auto home_first,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  CO_RETURN_IF_ERROR(
      co_await TellGone(AfterFirst(home_first), request, reply.gone(), limit));
  reply.clear_gone();
  co_return reply;
}

// They are called from elsewhere.
template Task<absl::StatusOr<PullReply>> ClusterSnapshots::Read(
    const PullRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<PullReply>> ClusterSnapshots::Read(
    const PullRowsRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<StatReply>> ClusterSnapshots::Read(
    const StatRequest& request, const CallLimit& limit);

}  // namespace tensorkv
