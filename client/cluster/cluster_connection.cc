#include "client/cluster/cluster_connection.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/mirrored_calls.h"
#include "client/cluster/placed_server.h"
#include "client/cluster/publishing.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "client/internal/worker/worker_errors.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Bounds how often a call is routed again where nobody tells of a newer
// placement. Servers may learn of one one after the other.
constexpr int kMostAttempts = 4;

// Calls that go to every server, and may be made again whatever some have done.
template <typename Request>
constexpr bool kAsksAll = std::is_same_v<Request, JoinRequest> ||
                          std::is_same_v<Request, LeaveRequest> ||
                          (CallTypes<Request>::kRepeat == Repeat::kHarmless &&
                           !kNamesKeys<Request>);

std::vector<Destination> At(absl::Span<const Destination> destinations,
                            absl::Span<const size_t> places) {
  std::vector<Destination> of_share;
  if (destinations.empty()) return of_share;
  for (const size_t place : places) of_share.push_back(destinations[place]);
  return of_share;
}

// Returns whether a share may wait for workers that have gone back with another
// server, and may be cancelled then, since it is made again.
template <typename Request>
bool MayWaitInVain(Mode mode) {
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    return mode == Mode::kSync;
  }
  return std::is_base_of_v<PullRequest, Request>;
}

// Returns the error of a call whose shares have ended so, marked as
// WithoutEffect says if none had an effect; OK if all are.
template <typename Request>
absl::Status ErrorOf(Mode mode, absl::Span<const absl::Status> outcomes) {
  const absl::Status worst = MostActionableError(outcomes);
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    const bool says_nothing_happened = IsPushedAgain(worst) || IsOfDelta(worst);
    if (says_nothing_happened && absl::c_any_of(outcomes, MayHaveEffect) &&
        MayBeAsync(mode)) {
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              "other servers may have applied their shares of the push: ",
              worst.message())),
          Reason::kOutcomeUnknown);
    }
  }
  const bool had_effect = absl::c_any_of(outcomes, MayHavePushed<Request>);
  return worst.ok() || had_effect ? worst : WithoutEffect(worst);
}

// Returns the server that has the first of the call's keys; the home of one
// without.
template <typename Request>
const std::string& FirstOwner(const ClusterPlacement& placement,
                              const Request& request) {
  const auto& entries = EntriesIn(request);
  const std::string key =
      entries.empty() ? std::string() : KeyIn(*entries.begin());
  return placement.servers[OwnerOf(placement, NamespaceIn(request), key)].name;
}

// Returns whether no share of a call is made again. If it gives up, refused
// shares count among the outcomes.
template <typename Progress>
bool HasEnded(Progress& progress, bool gives_up) {
  const absl::Status worst = MostActionableError(progress.outcomes);
  // A step that is closed for some keys may be open for those that moved.
  const bool has_failed = !worst.ok() && ReasonOf(worst) != Reason::kStepClosed;
  if (has_failed || progress.refusals.empty()) return true;
  if (gives_up) {
    absl::c_move(progress.refusals, std::back_inserter(progress.outcomes));
  }
  return gives_up;
}

}  // namespace

Task<absl::Status> ClusterConnection::Make(AnyCall call, CallOptions options,
                                           CallThreads* threads) {
  const CallLimit limit = threads == nullptr ? CallLimit(options)
                                             : servers_.LimitOfStarted(options);
  Task<absl::Status> task =
      call.Visit([&](const auto& request, auto& reply) -> Task<absl::Status> {
        return MakeAs(request, reply, limit);
      });
  co_return co_await task;
}

template <typename Request>
Task<absl::Status> ClusterConnection::MakeAs(const Request& request,
                                             ReplyTo<Request>& reply,
                                             const CallLimit& limit) {
  absl::StatusOr<ReplyTo<Request>> made = co_await Route(request, limit);
  if constexpr (kAsksAll<Request>) {
    // One that was asked is in the cluster no more: the others are asked again.
    for (int i = 1; i < kMostAttempts && IsAtWrongServer(made.status()); ++i) {
      Request next = request;
      NameAttempt("#", i, next);
      made = co_await Route(next, limit);
    }
  }
  CO_RETURN_IF_ERROR(made.status());
  reply = *std::move(made);
  co_return absl::OkStatus();
}

// --- Keys -------------------------------------------------------------------

template <typename Request>
requires kNamesKeys<Request> Task<absl::StatusOr<ReplyTo<Request>>>
ClusterConnection::Route(const Request& request, const CallLimit& limit) {
  if constexpr (kMayReadSnapshot<Request>) {
    if (SnapshotIn(request) != nullptr) {
      co_return co_await snapshots_.Read(request, limit);
    }
  }
  std::optional<Request> next;
  for (int attempt = 0;; ++attempt) {
    const Request& made = next ? *next : request;
    CO_ASSIGN_OR_RETURN(const KnownNamespace known,
                        co_await KnowFor(made, limit));
    const bool is_published = TakesSnapshot(made) && !known.is_mirrored;
    PlacementPtr placement;
    if (is_published) {
      CO_ASSIGN_OR_RETURN(placement, co_await servers_.Placement(limit));
    }
    const bool takes_shares = is_published && IsOfShares(*placement);
    if (takes_shares) CO_RETURN_IF_ERROR(CheckIsNoPart(made));
    const auto start = [&]() -> Task<absl::StatusOr<ReplyTo<Request>>> {
      if constexpr (kMayPublish<Request>) {
        if (takes_shares) return Publish(made, known, limit);
      }
      return known.is_mirrored ? MakeMirrored(made, known, limit)
                               : MakePlaced(made, known, limit);
    };
    Task<absl::StatusOr<ReplyTo<Request>>> task = start();
    absl::StatusOr<ReplyTo<Request>> reply = co_await task;
    const bool has_grown =
        is_published && !takes_shares && IsAtWrongServer(reply.status());
    const bool finds_another =
        IsOfFormerNamespace(reply.status()) && NamespaceUidIn(request) == 0;
    const bool may_go_on = has_grown || finds_another;
    if (!may_go_on || attempt == kMostAttempts) co_return reply;
    if (has_grown) {
      const uint64_t told = VersionToldBy({reply.status()});
      CO_RETURN_IF_ERROR(co_await servers_.NewerThan(placement, told, limit));
    } else {
      // Shares that were refused have been made again by what there is now.
      const auto present = namespaces_.Find(NamespaceIn(request));
      const bool has_other_kind =
          present && present->is_mirrored != known.is_mirrored;
      if (!known.is_mirrored && !has_other_kind && !is_published) {
        co_return reply;
      }
      namespaces_.Forget(NamespaceIn(request), known.uid);
    }
    next = request;
    NameAttempt("=", attempt + 1, *next);
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::Publish(
    const Request& request, const KnownNamespace& known,
    const CallLimit& limit) {
  Request bound = request;
  NameUid(known, bound);
  const CreateSnapshotRequest terms = TermsOf(bound);
  absl::Status why;
  for (int attempt = 0; attempt < ClusterSnapshots::kMostAttempts; ++attempt) {
    absl::StatusOr<ClusterSnapshots::Publication> publication =
        co_await snapshots_.Begin(terms, attempt, limit);
    if (!publication.ok()) {
      co_return why.ok() ? publication.status() : NotPublished(bound, why);
    }
    const Request part = PartOf(bound, *publication, attempt);
    absl::StatusOr<ReplyTo<Request>> reply =
        co_await MakePlaced(part, known, limit, &publication->published_by);
    if (!reply.ok()) {
      [[maybe_unused]] const auto ended =
          co_await snapshots_.GiveUp(*publication, reply.status(), limit);
      co_return why.ok() ? reply : NotPublished(bound, reply.status());
    }
    const absl::StatusOr<CreateSnapshotReply> taken =
        co_await snapshots_.Complete(*publication, limit);
    if (taken.ok()) {
      reply->published = {taken->number(), taken->revision()};
      co_return reply;
    }
    why = taken.status();
    if (!MayBeMadeAgain(bound) ||
        !ClusterSnapshots::MayBeginAgain(terms, why)) {
      break;
    }
  }
  co_return NotPublished(bound, why);
}

template <typename Request>
Task<absl::StatusOr<KnownNamespace>> ClusterConnection::KnowFor(
    const Request& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  for (int attempt = 0;; ++attempt) {
    absl::StatusOr<KnownNamespace> known =
        co_await KnowAt(FirstOwner(*placement, request), NamespaceIn(request),
                        NamespaceUidIn(request), limit);
    if (!IsAtWrongServer(known.status()) || attempt == kMostAttempts) {
      co_return known;
    }
    const uint64_t told = VersionToldBy({known.status()});
    CO_ASSIGN_OR_RETURN(placement,
                        co_await servers_.NewerThan(placement, told, limit));
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::MakePlaced(
    const Request& request, KnownNamespace known, const CallLimit& limit,
    std::set<std::string>* published_by) {
  const CallShares<Request> call(request);
  Progress<Request> progress = {.known = known,
                                .is_bound = NamespaceUidIn(request) != 0,
                                .open = call.AllPlaces()};
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  int fruitless = 0;
  for (int attempt = 0;; ++attempt) {
    const std::vector<CallShare> shares = call.Cut(*placement, progress.open);
    Replies<ReplyTo<Request>> answers =
        co_await MakeShares(call, shares, attempt, limit, progress);
    TakeAnswers(call, shares, std::move(answers), progress);
    // A call that one server alone publishes is not cut into shares.
    const bool gives_up = fruitless == kMostAttempts || TakesSnapshot(request);
    if (HasEnded(progress, gives_up)) {
      CO_RETURN_IF_ERROR(
          ErrorOf<Request>(progress.known.mode, progress.outcomes));
      if (published_by != nullptr) {
        *published_by = std::move(progress.published_by);
      }
      co_return std::move(progress.reply);
    }
    const uint64_t told = VersionToldBy(progress.refusals);
    const bool finds_another =
        absl::c_any_of(progress.refusals, IsOfFormerNamespace);
    // By the same placement servers refuse workers only, which those of
    // mirrored namespaces do.
    if ((finds_another || told <= placement->version) &&
        !progress.refused_by.empty()) {
      CO_RETURN_IF_ERROR(co_await KnowAnew(
          progress.refused_by, call.name_space(), limit, progress.known));
    }
    ++fruitless;
    if (absl::c_none_of(progress.refusals, IsAtWrongServer)) continue;
    CO_ASSIGN_OR_RETURN(PlacementPtr newest,
                        co_await servers_.NewerThan(placement, told, limit));
    // A server that knows an older placement will learn of this one.
    if (newest->version > placement->version || told < placement->version) {
      fruitless = 0;
    }
    placement = std::move(newest);
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::MakeMirrored(
    const Request& request, KnownNamespace known, const CallLimit& limit) {
  const auto at = [&]<typename Other>(const std::string& server,
                                      const Other& other) {
    return CallFor(known, server, other, limit);
  };
  CO_ASSIGN_OR_RETURN(const auto home_first,
                      co_await servers_.HomeFirst(NamespaceIn(request), limit));
  if constexpr (std::is_same_v<Request, InitRequest>) {
    co_return co_await InitMirrored(home_first, request, at, at);
  } else if constexpr (std::is_same_v<Request, SetStateRequest>) {
    co_return co_await SetStateMirrored(home_first, request, at);
  } else if constexpr (std::is_same_v<Request, DeleteRequest>) {
    co_return co_await DeleteMirrored(home_first, request, at);
  } else {
    CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                        co_await servers_.Placement(limit));
    for (int attempt = 0;; ++attempt) {
      const std::string& server = MirrorFor(*placement, request, reader_);
      absl::StatusOr<ReplyTo<Request>> reply = co_await at(server, request);
      const bool is_last = attempt + 1 == kMostAttempts;
      if (!IsAtWrongServer(reply.status()) || is_last) {
        if (reply.ok()) co_return reply;
        co_return ErrorOf<Request>(known.mode, {reply.status()});
      }
      const uint64_t told = VersionToldBy({reply.status()});
      if (told <= placement->version) {
        CO_RETURN_IF_ERROR(
            co_await KnowAnew(server, NamespaceIn(request), limit, known));
      }
      CO_ASSIGN_OR_RETURN(placement,
                          co_await servers_.NewerThan(placement, told, limit));
    }
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::CallFor(
    const KnownNamespace& known, const std::string& server,
    const Request& request, const CallLimit& limit) {
  Request named = request;
  NameUid(known, named);
  co_return co_await servers_.At(server, named, limit, limit.destinations);
}

template <typename Request>
Task<std::vector<absl::StatusOr<ReplyTo<Request>>>>
ClusterConnection::MakeShares(const CallShares<Request>& call,
                              absl::Span<const CallShare> shares, int attempt,
                              const CallLimit& limit,
                              Progress<Request>& progress) {
  const bool may_wait_in_vain =
      shares.size() > 1 && MayWaitInVain<Request>(progress.known.mode);
  progress.others = may_wait_in_vain ? std::make_shared<Canceller>() : nullptr;
  const Canceller::Listening listening(
      may_wait_in_vain ? limit.canceller : nullptr,
      [others = progress.others] { others->Cancel(); });
  CallLimit of_shares = limit;
  if (may_wait_in_vain) of_shares.canceller = progress.others;
  const auto make = [&](size_t i, const CallLimit& of_share) {
    return MakeShare(call, shares[i], progress, attempt, of_share);
  };
  co_return co_await servers_.AtOnce<absl::StatusOr<ReplyTo<Request>>>(
      shares.size(), of_shares, make);
}

template <typename Request>
void ClusterConnection::TakeAnswers(const CallShares<Request>& call,
                                    absl::Span<const CallShare> shares,
                                    Replies<ReplyTo<Request>> answers,
                                    Progress<Request>& progress) {
  progress.open.clear();
  progress.refusals.clear();
  progress.refused_by.clear();
  for (size_t i = 0; i < shares.size(); ++i) {
    const std::vector<size_t>& places = shares[i].places;
    absl::Status outcome = answers[i].status();
    if (outcome.ok()) {
      if constexpr (kMayPublish<Request>) {
        if (answers[i]->published) {
          progress.published_by.insert(shares[i].server);
          // One server that takes the whole call tells of the whole snapshot.
          progress.reply.published = answers[i]->published;
        }
      }
      outcome = call.JoinReply(*std::move(answers[i]), places, progress.reply);
    }
    const bool finds_another =
        IsOfFormerNamespace(outcome) && !progress.is_bound;
    if (IsAtWrongServer(outcome) || finds_another) {
      absl::c_copy(places, std::back_inserter(progress.open));
      progress.refusals.push_back(outcome);
      if (!IsOfRemovedServer(outcome)) progress.refused_by = shares[i].server;
    } else {
      progress.outcomes.push_back(outcome);
    }
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::MakeShare(
    const CallShares<Request>& call, const CallShare& share,
    const Progress<Request>& progress, int attempt, const CallLimit& limit) {
  Request request = call.Share(share.places);
  NameUid(progress.known, request);
  NameAttempt("#", attempt, request);
  const std::vector<Destination> destinations =
      At(limit.destinations, share.places);
  absl::StatusOr<ReplyTo<Request>> reply =
      co_await servers_.At(share.server, request, limit, destinations);
  constexpr bool pushes = std::is_base_of_v<PushRequest, Request>;
  // A push is to arrive elsewhere for whoever takes the rank.
  const bool must_arrive =
      pushes && ReasonOf(reply.status()) == Reason::kWorkerLeft;
  if (progress.others && EndsTheCall(reply.status()) && !must_arrive) {
    progress.others->Cancel();
  }
  // A checkpoint that others restore may have it, but none of its answer.
  if (pushes && MayHaveReachedRemovedServer(reply.status()) &&
      MayBeAsync(progress.known.mode)) {
    co_return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "the push may have been made: ", reply.status().message())),
        Reason::kOutcomeUnknown);
  }
  co_return reply;
}

Task<absl::StatusOr<ListReply>> ClusterConnection::Route(
    const ListRequest& request, const CallLimit& limit) {
  if (request.has_at()) co_return co_await snapshots_.List(request, limit);
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  const std::string first = placement->servers.front().name;
  for (int attempt = 0;; ++attempt) {
    CO_ASSIGN_OR_RETURN(const KnownNamespace known,
                        co_await KnowAt(first, request.namespace_(),
                                        request.namespace_uid(), limit));
    ListRequest made = request;
    NameUid(known, made);
    Task<absl::StatusOr<ListReply>> task =
        known.is_mirrored ? servers_.At(first, made, limit)
                          : ListPlaced(made, placement, limit);
    const absl::StatusOr<ListReply> page = co_await task;
    const bool finds_another =
        IsOfFormerNamespace(page.status()) && request.namespace_uid() == 0;
    if (!finds_another || attempt == kMostAttempts) co_return page;
    namespaces_.Forget(request.namespace_(), known.uid);
  }
}

Task<absl::StatusOr<ListReply>> ClusterConnection::ListPlaced(
    const ListRequest& request, const PlacementPtr& known,
    const CallLimit& limit) {
  PlacementPtr placement = known;
  for (int fruitless = 0;;) {
    const std::vector<std::string> servers = NamesIn(*placement);
    CO_ASSIGN_OR_RETURN(std::vector<ListReply> pages,
                        co_await AskEach(servers, request, limit));
    const auto versions =
        pages | std::views::transform(&ListReply::placement_version);
    const uint64_t oldest = std::ranges::min(versions);
    const uint64_t newest = std::ranges::max(versions);
    // Where servers go by several placements, each may leave a key to another.
    if (oldest == placement->version && newest == placement->version) {
      co_return MergePages(std::move(pages), request.page_size());
    }
    if (fruitless == kMostAttempts) {
      co_return absl::UnavailableError(absl::StrCat(
          "a server lists its keys by placement ", newest,
          "; no server gives a newer one than ", placement->version));
    }
    CO_ASSIGN_OR_RETURN(PlacementPtr found,
                        co_await servers_.NewerThan(placement, newest, limit));
    // A server that knows an older placement will learn of this one.
    const bool goes_on =
        found->version > placement->version || oldest < placement->version;
    fruitless = goes_on ? 0 : fruitless + 1;
    placement = std::move(found);
  }
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterConnection::Route(
    const CreateSnapshotRequest& request, const CallLimit& limit) {
  CreateSnapshotRequest made = request;
  for (int attempt = 0;; ++attempt) {
    CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                        co_await servers_.Placement(limit));
    const uint32_t home = OwnerOf(*placement, made.namespace_(), "");
    CO_ASSIGN_OR_RETURN(
        const KnownNamespace known,
        co_await KnowAt(placement->servers[home].name, made.namespace_(),
                        made.namespace_uid(), limit));
    NameUid(known, made);
    const bool takes_shares = !known.is_mirrored && IsOfShares(*placement);
    Task<absl::StatusOr<CreateSnapshotReply>> task =
        takes_shares ? snapshots_.Create(made, limit)
                     : snapshots_.Make(made, limit);
    const absl::StatusOr<CreateSnapshotReply> reply = co_await task;
    const bool has_grown =
        !takes_shares && !known.is_mirrored && IsAtWrongServer(reply.status());
    const bool finds_another =
        IsOfFormerNamespace(reply.status()) && request.namespace_uid() == 0;
    const bool may_go_on = has_grown || finds_another;
    if (!may_go_on || attempt == kMostAttempts) co_return reply;
    if (has_grown) {
      const uint64_t told = VersionToldBy({reply.status()});
      CO_RETURN_IF_ERROR(co_await servers_.NewerThan(placement, told, limit));
    } else {
      namespaces_.Forget(request.namespace_(), known.uid);
    }
    made = request;
    NameAttempt("=", attempt + 1, made);
  }
}

// --- All others -------------------------------------------------------------

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::Route(
    const Request& request, const CallLimit& limit) {
  std::vector<std::string> servers;
  if constexpr (kHasNamespace<Request>) {
    CO_ASSIGN_OR_RETURN(
        servers, co_await servers_.HomeFirst(NamespaceIn(request), limit));
  } else {
    CO_ASSIGN_OR_RETURN(servers, co_await servers_.All(limit));
  }
  if constexpr (requires(ReplyTo<Request> & reply) { Add(reply, reply); }) {
    CO_ASSIGN_OR_RETURN(std::vector<ReplyTo<Request>> replies,
                        co_await AskEach(servers, request, limit));
    co_return SumOf(std::move(replies));
  } else {
    co_return co_await Change(servers, request, limit);
  }
}

// Tells whether such a call removes something. Keys that an earlier one has
// removed from some servers are removed from the others; it fails with NotFound
// only where no server has any.
template <typename Request>
constexpr bool kRemoves = std::is_same_v<Request, UnsetRuleRequest> ||
                          std::is_same_v<Request, UnsetMultipliersRequest> ||
                          std::is_same_v<Request, DeleteNamespaceRequest> ||
                          std::is_same_v<Request, DeleteCheckpointRequest>;

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::Change(
    const std::vector<std::string>& servers, const Request& request,
    const CallLimit& limit) {
  static_assert(
      kRemoves<Request> || CallTypes<Request>::kRepeat == Repeat::kHarmless,
      "a call that may not come twice must say what its repeat means");
  const auto is_missing = [](const absl::Status& status) {
    return kRemoves<Request> && absl::IsNotFound(status);
  };
  constexpr bool is_delete = std::is_same_v<Request, DeleteNamespaceRequest>;
  if constexpr (is_delete) namespaces_.Forget(request.namespace_());
  absl::StatusOr<ReplyTo<Request>> reply =
      co_await servers_.At(servers.front(), request, limit);
  if (!reply.ok() && !is_missing(reply.status())) co_return reply;
  Replies<ReplyTo<Request>> others =
      co_await servers_.AtEach(AfterFirst(servers), request, limit);
  std::vector<absl::Status> errors;
  for (size_t i = 0; i < others.size(); ++i) {
    absl::Status status = others[i].status();
    if constexpr (is_delete) {
      status = co_await RemoveEarlier(servers[i + 1], request.namespace_(),
                                      request.namespace_uid(), status, limit);
      // A later one was created meanwhile, and stays.
      if (IsOfFormerNamespace(status)) continue;
    }
    if (!is_missing(status)) errors.push_back(status);
    if (others[i].ok() && !reply.ok()) reply = *std::move(others[i]);
  }
  CO_RETURN_IF_ERROR(MostActionableError(errors));
  co_return reply;
}

}  // namespace tensorkv
