#include "client/cluster/cluster_connection.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/mirrored_calls.h"
#include "client/cluster/placed_server.h"
#include "client/cluster/share_outcomes.h"
#include "client/internal/worker_errors.h"
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

// Returns the error of a call that began with an earlier namespace of that
// name.
absl::Status IsOfAnotherKind(const std::string& name_space) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "namespace \"", name_space,
          "\": was deleted and created again, of another kind (mirrored or "
          "not), while the call was made")),
      Reason::kNamespaceReplaced, {{"namespace", name_space}});
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

absl::Status ClusterConnection::Attempt(const AnyCall& call,
                                        const CallOptions& options) {
  const CallLimit limit = servers_.LimitOf(options);
  return call.Visit([&](const auto& request, auto& reply) -> absl::Status {
    auto made = Route(request, limit);
    if constexpr (kAsksAll<std::decay_t<decltype(request)>>) {
      // One that was asked is in the cluster no more: the others are asked
      // again.
      for (int i = 1; i < kMostAttempts && IsAtWrongServer(made.status());
           ++i) {
        auto next = request;
        NameAttempt("#", i, next);
        made = Route(next, limit);
      }
    }
    RETURN_IF_ERROR(made.status());
    reply = *std::move(made);
    return absl::OkStatus();
  });
}

// --- Keys -------------------------------------------------------------------

template <typename Request>
requires kNamesKeys<Request> absl::StatusOr<ReplyTo<Request>>
ClusterConnection::Route(const Request& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const PlacementPtr placement, servers_.Placement(limit));
  const std::string& server = FirstOwner(*placement, request);
  std::optional<Request> next;
  for (int attempt = 0;; ++attempt) {
    const bool is_mirrored = IsMirrored(NamespaceIn(request), server, limit);
    const Request& made = next ? *next : request;
    auto reply =
        is_mirrored ? MakeMirrored(made, limit) : MakePlaced(made, limit);
    const bool is_of_another_kind =
        ReasonOf(reply.status()) == Reason::kNamespaceReplaced &&
        namespaces_.IsMirrored(NamespaceIn(request)) == !is_mirrored;
    if (!is_of_another_kind || attempt == kMostAttempts) return reply;
    next = request;
    NameAttempt("=", attempt + 1, *next);
  }
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::MakePlaced(
    const Request& request, const CallLimit& limit) {
  const CallShares<Request> call(request);
  Progress<Request> progress = {.open = call.AllPlaces()};
  ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
  int fruitless = 0;
  for (int attempt = 0;; ++attempt) {
    MakeShares(call, *placement, attempt, limit, progress);
    if (HasEnded(progress, /*gives_up=*/fruitless == kMostAttempts)) {
      RETURN_IF_ERROR(ErrorOf(request, progress.outcomes));
      return std::move(progress.reply);
    }
    const uint64_t told = VersionToldBy(progress.refusals);
    // By the same placement servers refuse workers only, which those of
    // mirrored namespaces do.
    if (told <= placement->version && !progress.refused_by.empty()) {
      ASSIGN_OR_RETURN(const bool has_changed,
                       HasChanged(progress.refused_by, call.name_space(),
                                  /*was_mirrored=*/false, limit));
      if (has_changed) return IsOfAnotherKind(call.name_space());
    }
    ASSIGN_OR_RETURN(PlacementPtr newest,
                     servers_.NewerThan(placement, told, limit));
    // A server that knows an older placement will learn of this one.
    const bool goes_on =
        newest->version > placement->version || told < placement->version;
    fruitless = goes_on ? 0 : fruitless + 1;
    placement = std::move(newest);
  }
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::AtOfKind(
    const std::string& server, Request request, bool is_mirrored,
    const CallLimit& limit, absl::Span<const Destination> destinations) {
  const uint64_t uid = NamespaceUidIn(request);
  for (int attempt = 0;; ++attempt) {
    RETURN_IF_ERROR(FixKind(server, is_mirrored, limit, request));
    auto reply = servers_.At(server, request, limit, destinations);
    if (ReasonOf(reply.status()) != Reason::kNamespaceReplaced) return reply;
    namespaces_.ForgetKindAt(NamespaceIn(request), server);
    // Else the caller means the one that has gone.
    const bool is_meant = NamespaceUidIn(request) == uid;
    if (is_meant || attempt == kMostAttempts) return reply;
    SetNamespaceUid(uid, request);
  }
}

template <typename Request>
absl::Status ClusterConnection::FixKind(const std::string& server,
                                        bool is_mirrored,
                                        const CallLimit& limit,
                                        Request& request) {
  if constexpr (std::is_same_v<Request, InitRequest> ||
                std::is_same_v<Request, SetStateRequest> ||
                std::is_same_v<Request, DeleteRequest> ||
                std::is_base_of_v<PushRequest, Request>) {
    auto kind = KindAt(server, NamespaceIn(request), limit);
    if (kind.ok() && kind->is_mirrored != is_mirrored) {
      // It may have told so of an earlier namespace.
      namespaces_.ForgetKindAt(NamespaceIn(request), server);
      kind = KindAt(server, NamespaceIn(request), limit);
    }
    // The call itself tells best what is wrong: who may not know what it is
    // may not change it either, and one that is not there may have been lost.
    if (absl::IsPermissionDenied(kind.status()) ||
        absl::IsNotFound(kind.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(kind.status());
    const bool is_meant =
        NamespaceUidIn(request) == 0 || NamespaceUidIn(request) == kind->uid;
    // The server refuses a uid that it does not have.
    if (!is_meant) return absl::OkStatus();
    if (kind->is_mirrored != is_mirrored) {
      return IsOfAnotherKind(NamespaceIn(request));
    }
    SetNamespaceUid(kind->uid, request);
  }
  return absl::OkStatus();
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::MakeMirrored(
    const Request& request, const CallLimit& limit) {
  const auto at = [&]<typename Other>(
                      const std::string& server,
                      const Other& other) -> absl::StatusOr<ReplyTo<Other>> {
    ASSIGN_OR_RETURN(Other there, Translated(other, server, limit));
    return AtOfKind(server, std::move(there), /*is_mirrored=*/true, limit,
                    limit.destinations);
  };
  ASSIGN_OR_RETURN(const auto home_first,
                   servers_.HomeFirst(NamespaceIn(request), limit));
  if constexpr (std::is_same_v<Request, InitRequest>) {
    return InitMirrored(home_first, request, at, at);
  } else if constexpr (std::is_same_v<Request, SetStateRequest>) {
    return SetStateMirrored(home_first, request, at);
  } else if constexpr (std::is_same_v<Request, DeleteRequest>) {
    return DeleteMirrored(home_first, request, at);
  } else {
    ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
    for (int attempt = 0;; ++attempt) {
      const std::string& server = MirrorFor(*placement, request, reader_);
      auto reply = at(server, request);
      const bool is_last = attempt + 1 == kMostAttempts;
      if (!IsAtWrongServer(reply.status()) || is_last) {
        if (reply.ok()) return reply;
        return ErrorOf(request, {reply.status()});
      }
      const uint64_t told = VersionToldBy({reply.status()});
      if (told <= placement->version) {
        ASSIGN_OR_RETURN(const bool has_changed,
                         HasChanged(server, NamespaceIn(request),
                                    /*was_mirrored=*/true, limit));
        if (has_changed) return IsOfAnotherKind(NamespaceIn(request));
      }
      ASSIGN_OR_RETURN(placement, servers_.NewerThan(placement, told, limit));
    }
  }
}

template <typename Request>
void ClusterConnection::MakeShares(const CallShares<Request>& call,
                                   const ClusterPlacement& placement,
                                   int attempt, const CallLimit& limit,
                                   Progress<Request>& progress) {
  const std::vector<CallShare> shares = call.Cut(placement, progress.open);
  Replies<ReplyTo<Request>> answers(shares.size());
  const bool may_wait_in_vain = shares.size() > 1 && MayWaitInVain(call);
  const auto others = std::make_shared<Canceller>();
  const Canceller::Listening listening(
      may_wait_in_vain ? limit.canceller : nullptr,
      [others] { others->Cancel(); });
  CallLimit of_shares = limit;
  if (may_wait_in_vain) of_shares.canceller = others;
  servers_.AtOnce(shares.size(), [&](size_t i) {
    answers[i] = MakeShare(call, shares[i], attempt, of_shares);
    const absl::Status status = answers[i].status();
    // A push is to arrive elsewhere for whoever takes the rank.
    const bool must_arrive = std::is_base_of_v<PushRequest, Request> &&
                             ReasonOf(status) == Reason::kWorkerLeft;
    if (EndsTheCall(status) && !must_arrive) others->Cancel();
  });
  progress.open.clear();
  progress.refusals.clear();
  progress.refused_by.clear();
  for (size_t i = 0; i < shares.size(); ++i) {
    const std::vector<size_t>& places = shares[i].places;
    absl::Status outcome = answers[i].status();
    if (outcome.ok()) {
      outcome = call.JoinReply(*std::move(answers[i]), places, progress.reply);
    }
    if (IsAtWrongServer(outcome)) {
      absl::c_copy(places, std::back_inserter(progress.open));
      progress.refusals.push_back(outcome);
      if (!IsOfRemovedServer(outcome)) progress.refused_by = shares[i].server;
    } else {
      progress.outcomes.push_back(outcome);
    }
  }
}

template <typename Request>
bool ClusterConnection::MayWaitInVain(const CallShares<Request>& call) const {
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    return namespaces_.ModeOf(call.name_space()) == Mode::kSync;
  }
  return std::is_base_of_v<PullRequest, Request>;
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::MakeShare(
    const CallShares<Request>& call, const CallShare& share, int attempt,
    const CallLimit& limit) {
  ASSIGN_OR_RETURN(Request request,
                   Translated(call.Share(share.places), share.server, limit));
  NameAttempt("#", attempt, request);
  absl::StatusOr<ReplyTo<Request>> reply =
      AtOfKind(share.server, std::move(request), /*is_mirrored=*/false, limit,
               At(limit.destinations, share.places));
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    // A checkpoint that others restore may have it, but none of its answer.
    if (MayHaveReachedRemovedServer(reply.status()) &&
        MayBeAsync(namespaces_.ModeOf(call.name_space()))) {
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              "the push may have been made: ", reply.status().message())),
          Reason::kOutcomeUnknown);
    }
  }
  return reply;
}

template <typename Request>
absl::StatusOr<Request> ClusterConnection::Translated(Request request,
                                                      const std::string& server,
                                                      const CallLimit& limit) {
  ASSIGN_OR_RETURN(const uint64_t uid, UidAt(server, NamespaceIn(request),
                                             NamespaceUidIn(request), limit));
  SetNamespaceUid(uid, request);
  if constexpr (requires { request.worker->epoch; }) {
    if (request.worker && request.worker->epoch != 0) {
      ASSIGN_OR_RETURN(const std::string home,
                       servers_.HomeOf(NamespaceIn(request), limit));
      request.worker =
          WorkerAt(server, home, NamespaceIn(request), *request.worker);
    }
  }
  return request;
}

Worker ClusterConnection::WorkerAt(const std::string& server,
                                   const std::string& home,
                                   const std::string& name_space,
                                   const Worker& worker) const {
  const Worker there = namespaces_.WorkerAt(server, name_space, worker);
  // The home knows who has joined over other connections.
  const bool is_known = KnownNamespaces::IsSomebody(there);
  return server == home && !is_known ? worker : there;
}

absl::StatusOr<uint64_t> ClusterConnection::UidAt(const std::string& server,
                                                  const std::string& name_space,
                                                  uint64_t uid,
                                                  const CallLimit& limit) {
  if (uid == 0) return uid;
  ASSIGN_OR_RETURN(const std::string home, servers_.HomeOf(name_space, limit));
  std::optional<uint64_t> known = namespaces_.UidAt(server, name_space, uid);
  // The home's own, unless the namespace has had another home before.
  const bool is_own = server == home && !namespaces_.Knows(name_space, uid);
  if (!known && is_own) return uid;
  if (!known) {
    DescribeNamespaceRequest request;
    request.set_namespace_(name_space);
    RETURN_IF_ERROR(Route(request, limit).status());
    known = namespaces_.UidAt(server, name_space, uid);
  }
  // The server refuses a uid of the home's as that of another namespace, which
  // it is.
  return known.value_or(uid);
}

template <typename Request>
absl::Status ClusterConnection::ErrorOf(
    const Request& request, absl::Span<const absl::Status> outcomes) const {
  const absl::Status worst = MostActionableError(outcomes);
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    if (IsPushedAgain(worst) && absl::c_any_of(outcomes, MayHaveEffect) &&
        MayBeAsync(namespaces_.ModeOf(NamespaceIn(request)))) {
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

absl::StatusOr<ListReply> ClusterConnection::Route(const ListRequest& request,
                                                   const CallLimit& limit) {
  ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
  const std::string first = placement->servers.front().name;
  ASSIGN_OR_RETURN(const ListRequest at_first,
                   Translated(request, first, limit));
  if (IsMirrored(request.namespace_(), first, limit)) {
    auto page = servers_.At(first, at_first, limit);
    // Only what is not mirrored is listed by a placement.
    const bool is_mirrored = page.ok() && page->placement_version() == 0;
    if (is_mirrored || placement->version == 0) return page;
    ASSIGN_OR_RETURN(const bool has_changed,
                     HasChanged(first, request.namespace_(),
                                /*was_mirrored=*/true, limit));
    if (!has_changed) return page;
  }
  for (int fruitless = 0;;) {
    ASSIGN_OR_RETURN(std::vector<ListReply> pages,
                     AskEach(NamesIn(*placement), request, limit));
    const auto [oldest, newest] = std::ranges::minmax(
        pages | std::views::transform(&ListReply::placement_version));
    if (oldest == 0 && placement->version > 0) {
      ASSIGN_OR_RETURN(const bool has_changed,
                       HasChanged(first, request.namespace_(),
                                  /*was_mirrored=*/false, limit));
      if (has_changed) return servers_.At(first, at_first, limit);
    }
    // Where servers go by several placements, each may leave a key to another.
    if (oldest == placement->version && newest == placement->version) {
      return MergePages(std::move(pages), request.page_size());
    }
    if (fruitless == kMostAttempts) {
      return absl::UnavailableError(absl::StrCat(
          "a server lists its keys by placement ", newest,
          "; no server gives a newer one than ", placement->version));
    }
    ASSIGN_OR_RETURN(PlacementPtr found,
                     servers_.NewerThan(placement, newest, limit));
    // A server that knows an older placement will learn of this one.
    const bool goes_on =
        found->version > placement->version || oldest < placement->version;
    fruitless = goes_on ? 0 : fruitless + 1;
    placement = std::move(found);
  }
}

// --- All others -------------------------------------------------------------

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::Route(
    const Request& request, const CallLimit& limit) {
  std::vector<std::string> servers;
  if constexpr (kHasNamespace<Request>) {
    ASSIGN_OR_RETURN(servers, servers_.HomeFirst(NamespaceIn(request), limit));
  } else {
    ASSIGN_OR_RETURN(servers, servers_.All(limit));
  }
  if constexpr (requires(ReplyTo<Request> & reply) { Add(reply, reply); }) {
    ASSIGN_OR_RETURN(std::vector<ReplyTo<Request>> replies,
                     AskEach(servers, request, limit));
    return SumOf(std::move(replies));
  } else {
    return Change(servers, request, limit);
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
absl::StatusOr<ReplyTo<Request>> ClusterConnection::Change(
    const std::vector<std::string>& servers, const Request& request,
    const CallLimit& limit) {
  static_assert(
      kRemoves<Request> || CallTypes<Request>::kRepeat == Repeat::kHarmless,
      "a call that may not come twice must say what its repeat means");
  const auto is_missing = [](const absl::Status& status) {
    return kRemoves<Request> && absl::IsNotFound(status);
  };
  // Once a namespace is gone at the home, nobody tells what the others call it.
  ASSIGN_OR_RETURN(const std::vector<Request> requests,
                   RequestsFor(servers, request, limit));
  if constexpr (std::is_same_v<Request, DeleteNamespaceRequest>) {
    namespaces_.ForgetKind(request.namespace_());
  }
  absl::StatusOr<ReplyTo<Request>> reply =
      servers_.At(servers.front(), requests.front(), limit);
  if (!reply.ok() && !is_missing(reply.status())) return reply;
  Replies<ReplyTo<Request>> others(servers.size() - 1);
  servers_.AtOnce(others.size(), [&](size_t i) {
    others[i] = servers_.At(servers[i + 1], requests[i + 1], limit);
  });
  std::vector<absl::Status> errors;
  for (auto& other : others) {
    if (!is_missing(other.status())) errors.push_back(other.status());
    if (other.ok() && !reply.ok()) reply = *std::move(other);
  }
  RETURN_IF_ERROR(MostActionableError(errors));
  return reply;
}

}  // namespace tensorkv
