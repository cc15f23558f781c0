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
#include "client/cluster/part_outcomes.h"
#include "client/cluster/placed_server.h"
#include "client/internal/worker_errors.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// How often a call is cut anew where nobody tells of a newer placement. Servers
// may learn of one one after the other.
constexpr int kMostAttempts = 4;

constexpr size_t kMaxClientIdBytes = 64;

// Calls that go to every server, and may be made again whatever some have done.
template <typename Request>
constexpr bool kAsksAll = std::is_same_v<Request, JoinRequest> ||
                          std::is_same_v<Request, LeaveRequest> ||
                          (CallTypes<Request>::kRepeat == Repeat::kHarmless &&
                           !kNamesKeys<Request>);

// A server may have had an earlier attempt under the call's name, with other
// entries or epochs.
template <typename Request>
void NameAttempt(int attempt, Request& request) {
  if constexpr (requires { request.call_id; }) {
    if (!request.call_id || attempt == 0) return;
    std::string& client_id = request.call_id->client_id;
    const std::string suffix = absl::StrCat("#", attempt);
    client_id = client_id.substr(0, kMaxClientIdBytes - suffix.size()) + suffix;
  }
}

// Takes from the page of each server the namespaces whose home it is.
ListNamespacesReply TakeHomes(const ClusterPlacement& placement,
                              absl::Span<const std::string> servers,
                              std::vector<ListNamespacesReply>& pages) {
  ListNamespacesReply homes;
  for (size_t i = 0; i < pages.size(); ++i) {
    std::erase_if(pages[i].namespaces, [&](NamespaceStatus& status) {
      const uint32_t home = OwnerOf(placement, status.name, "");
      if (placement.servers[home].name != servers[i]) return false;
      homes.namespaces.push_back(std::move(status));
      return true;
    });
  }
  return homes;
}

std::vector<Destination> At(absl::Span<const Destination> destinations,
                            absl::Span<const size_t> places) {
  std::vector<Destination> of_part;
  if (destinations.empty()) return of_part;
  for (const size_t place : places) of_part.push_back(destinations[place]);
  return of_part;
}

// Whether no part of a call is made again. If it gives up, what was refused
// counts among the outcomes.
template <typename Progress>
bool HasEnded(Progress& progress, bool gives_up) {
  const absl::Status worst = WorstOf(progress.outcomes);
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
    auto made = Make(request, limit);
    if constexpr (kAsksAll<std::decay_t<decltype(request)>>) {
      // One that was asked is in the cluster no more: the others are asked
      // anew.
      for (int i = 1; i < kMostAttempts && IsAtWrongServer(made.status());
           ++i) {
        auto anew = request;
        NameAttempt(i, anew);
        made = Make(anew, limit);
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
ClusterConnection::Make(const Request& request, const CallLimit& limit) {
  const CallParts<Request> call(request);
  Progress<Request> progress = {.open = call.AllPlaces()};
  ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
  const std::vector<CallPart> parts = call.Cut(*placement, progress.open);
  if (IsMirrored(call.name_space(), parts.front().server, limit)) {
    return MakeMirrored(request, limit);
  }
  int fruitless = 0;
  for (int attempt = 0;; ++attempt) {
    MakeParts(call, *placement, attempt, limit, progress);
    if (HasEnded(progress, /*gives_up=*/fruitless == kMostAttempts)) {
      RETURN_IF_ERROR(ErrorOf(request, progress.outcomes));
      return std::move(progress.reply);
    }
    const uint64_t told = VersionToldBy(progress.refusals);
    ASSIGN_OR_RETURN(PlacementPtr newest,
                     servers_.NewerThan(placement, told, limit));
    // A server that knows an older placement will learn of this one.
    const bool goes_on =
        newest->version > placement->version || told < placement->version;
    fruitless = goes_on ? 0 : fruitless + 1;
    placement = std::move(newest);
  }
}

bool ClusterConnection::IsMirrored(const std::string& name_space,
                                   const std::string& server,
                                   const CallLimit& limit) {
  if (const auto known = namespaces_.IsMirrored(name_space)) return *known;
  const absl::StatusOr<NamespaceStatus> status = servers_.At(
      server, DescribeNamespaceRequest{.name_space = name_space}, limit);
  const bool is_mirrored = status.ok() && status->config.mirrored;
  // Who may not know is not to ask at every call.
  if (status.ok() || absl::IsPermissionDenied(status.status())) {
    namespaces_.LearnMirrored(name_space, is_mirrored);
  }
  return is_mirrored;
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::MakeMirrored(
    const Request& request, const CallLimit& limit) {
  const auto at = [&]<typename Other>(
                      const std::string& server,
                      const Other& other) -> absl::StatusOr<ReplyTo<Other>> {
    ASSIGN_OR_RETURN(const Other there, Translated(other, server, limit));
    return servers_.At(server, there, limit, limit.destinations);
  };
  ASSIGN_OR_RETURN(const auto home_first,
                   servers_.HomeFirst(request.name_space, limit));
  if constexpr (std::is_same_v<Request, InitRequest>) {
    return InitMirrored(home_first, request, at, at);
  } else if constexpr (std::is_same_v<Request, DeleteRequest>) {
    return DeleteMirrored(home_first, request, at);
  } else {
    ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
    for (int attempt = 0;; ++attempt) {
      auto reply = at(MirrorFor(*placement, request, reader_), request);
      const bool is_last = attempt + 1 == kMostAttempts;
      if (!IsAtWrongServer(reply.status()) || is_last) return reply;
      ASSIGN_OR_RETURN(placement,
                       servers_.NewerThan(
                           placement, VersionToldBy({reply.status()}), limit));
    }
  }
}

template <typename Request>
void ClusterConnection::MakeParts(const CallParts<Request>& call,
                                  const ClusterPlacement& placement,
                                  int attempt, const CallLimit& limit,
                                  Progress<Request>& progress) {
  const std::vector<CallPart> parts = call.Cut(placement, progress.open);
  Replies<ReplyTo<Request>> answers(parts.size());
  const bool may_wait_in_vain = parts.size() > 1 && MayWaitInVain(call);
  const auto others = std::make_shared<Canceller>();
  const Canceller::Listening listening(
      may_wait_in_vain ? limit.canceller : nullptr,
      [others] { others->Cancel(); });
  CallLimit of_parts = limit;
  if (may_wait_in_vain) of_parts.canceller = others;
  servers_.AtOnce(parts.size(), [&](size_t i) {
    answers[i] = MakePart(call, parts[i], attempt, of_parts);
    if (EndsTheCall(answers[i].status())) others->Cancel();
  });
  progress.open.clear();
  progress.refusals.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<size_t>& places = parts[i].places;
    absl::Status outcome = answers[i].status();
    if (outcome.ok()) {
      outcome = call.JoinReply(*std::move(answers[i]), places, progress.reply);
    }
    if (IsAtWrongServer(outcome)) {
      absl::c_copy(places, std::back_inserter(progress.open));
      progress.refusals.push_back(outcome);
    } else {
      progress.outcomes.push_back(outcome);
    }
  }
}

template <typename Request>
bool ClusterConnection::MayWaitInVain(const CallParts<Request>& call) const {
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    return namespaces_.ModeOf(call.name_space()) == Mode::kSync;
  }
  return std::is_base_of_v<PullRequest, Request>;
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::MakePart(
    const CallParts<Request>& call, const CallPart& part, int attempt,
    const CallLimit& limit) {
  ASSIGN_OR_RETURN(Request request,
                   Translated(call.Part(part.places), part.server, limit));
  NameAttempt(attempt, request);
  absl::StatusOr<ReplyTo<Request>> reply = servers_.At(
      part.server, request, limit, At(limit.destinations, part.places));
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    // A checkpoint that others restore may have it, but none of its answer.
    if (MayBeMadeByOneThatLeft(reply.status()) &&
        MayBeAsync(namespaces_.ModeOf(request.name_space))) {
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
  if constexpr (requires { request.namespace_uid; }) {
    ASSIGN_OR_RETURN(
        request.namespace_uid,
        UidAt(server, request.name_space, request.namespace_uid, limit));
  }
  if constexpr (std::is_base_of_v<PushRequest, Request> ||
                std::is_base_of_v<PullRequest, Request>) {
    if (request.worker && request.worker->epoch != 0) {
      ASSIGN_OR_RETURN(const auto servers,
                       servers_.HomeFirst(request.name_space, limit));
      request.worker = WorkerAt(server, servers.front(), request.name_space,
                                *request.worker);
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
  ASSIGN_OR_RETURN(const auto servers, servers_.HomeFirst(name_space, limit));
  std::optional<uint64_t> known = namespaces_.UidAt(server, name_space, uid);
  // The home's own, unless the namespace has had another home before.
  const bool is_own =
      server == servers.front() && !namespaces_.Knows(name_space, uid);
  if (!known && is_own) return uid;
  if (!known) {
    const DescribeNamespaceRequest request = {.name_space = name_space};
    RETURN_IF_ERROR(Make(request, limit).status());
    known = namespaces_.UidAt(server, name_space, uid);
  }
  // The server refuses a uid of the home's as that of another namespace, which
  // it is.
  return known.value_or(uid);
}

template <typename Request>
absl::Status ClusterConnection::ErrorOf(
    const Request& request, absl::Span<const absl::Status> outcomes) const {
  const absl::Status worst = WorstOf(outcomes);
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    if (IsPushedAgain(worst) && absl::c_any_of(outcomes, MayHaveEffect) &&
        MayBeAsync(namespaces_.ModeOf(request.name_space))) {
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              "other servers may have applied their parts of the push: ",
              worst.message())),
          Reason::kOutcomeUnknown);
    }
  }
  return worst;
}

absl::StatusOr<ListReply> ClusterConnection::Make(const ListRequest& request,
                                                  const CallLimit& limit) {
  ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
  const std::string first = placement->servers.front().name;
  if (IsMirrored(request.name_space, first, limit)) {
    return servers_.At(first, request, limit);
  }
  for (int fruitless = 0;;) {
    ASSIGN_OR_RETURN(std::vector<ListReply> pages,
                     AskEach(NamesIn(*placement), request, limit));
    const auto [oldest, newest] = std::ranges::minmax(
        pages | std::views::transform(&ListReply::placement_version));
    // Where servers go by several placements, each may leave a key to another.
    if (oldest == placement->version && newest == placement->version) {
      return MergePages(std::move(pages), request.page_size);
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

// --- Namespaces and rules ---------------------------------------------------

absl::StatusOr<CreateNamespaceReply> ClusterConnection::Make(
    const CreateNamespaceRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.name_space, limit));
  if (request.config.mode == Mode::kBounded && servers.size() > 1) {
    return absl::UnimplementedError(
        "mode: bounded is not for several servers, each of which has only the "
        "steps of its own keys");
  }
  // The home decides who has created the namespace. The others take what it
  // has, also what an earlier call has left undone.
  const absl::StatusOr<CreateNamespaceReply> home =
      servers_.At(servers.front(), request, limit);
  if (home.ok()) {
    namespaces_.LearnMirrored(request.name_space, request.config.mirrored);
  }
  if (!home.ok() && !absl::IsAlreadyExists(home.status())) return home;
  CreateNamespaceRequest elsewhere = request;
  elsewhere.on_existing = OnExisting::kKeep;
  if (!home.ok() && servers.size() > 1) {
    ASSIGN_OR_RETURN(
        const NamespaceStatus status,
        servers_.At(servers.front(),
                    DescribeNamespaceRequest{.name_space = request.name_space},
                    limit));
    elsewhere.config = status.config;
  }
  const auto others = servers_.AtEach(
      AfterFirst(servers), [&](const std::string&) { return elsewhere; },
      limit);
  RETURN_IF_ERROR(home.status());
  RETURN_IF_ERROR(WorstOf(StatusesOf(others)));
  return home;
}

absl::StatusOr<NamespaceStatus> ClusterConnection::Make(
    const DescribeNamespaceRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.name_space, limit));
  ASSIGN_OR_RETURN(std::vector<NamespaceStatus> statuses,
                   AskEach(servers, request, limit));
  KnownNamespaces::ByServer<uint64_t> uids;
  for (size_t i = 0; i < servers.size(); ++i) {
    uids[servers[i]] = statuses[i].uid;
  }
  const bool is_mirrored = statuses.front().config.mirrored;
  if (is_mirrored) statuses.resize(1);  // the others have the same
  NamespaceStatus total = SumOf(std::move(statuses));
  namespaces_.LearnMirrored(request.name_space, is_mirrored);
  namespaces_.Learn(request.name_space, total.uid, total.config.mode,
                    std::move(uids));
  return total;
}

absl::StatusOr<ListNamespacesReply> ClusterConnection::Make(
    const ListNamespacesRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers, servers_.All(limit));
  ASSIGN_OR_RETURN(std::vector<ListNamespacesReply> pages,
                   AskEach(servers, request, limit));
  ASSIGN_OR_RETURN(const PlacementPtr placement, servers_.Placement(limit));
  pages.insert(pages.begin(), TakeHomes(*placement, servers, pages));
  return MergePages(std::move(pages), request.page_size);
}

// --- Workers ----------------------------------------------------------------

absl::StatusOr<JoinReply> ClusterConnection::Make(const JoinRequest& request,
                                                  const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.name_space, limit));
  ASSIGN_OR_RETURN(JoinReply total,
                   JoinAt(servers.front(), /*is_home=*/true, request, limit));
  JoinRequest elsewhere = request;
  elsewhere.rank = total.worker.rank;
  Replies<JoinReply> others(servers.size() - 1);
  servers_.AtOnce(others.size(), [&](size_t i) {
    others[i] = JoinAt(servers[i + 1], /*is_home=*/false, elsewhere, limit);
  });
  ASSIGN_OR_RETURN(const std::vector<JoinReply> joined,
                   AllOf(std::move(others)));
  KnownNamespaces::ByServer<uint64_t> incarnations = {
      {servers.front(), total.server_incarnation}};
  for (size_t i = 0; i < joined.size(); ++i) {
    const JoinReply& other = joined[i];
    total.next_step = NextStepOf(namespaces_.ModeOf(request.name_space),
                                 total.next_step, other.next_step);
    incarnations[servers[i + 1]] = other.server_incarnation;
    total.lease = std::min(total.lease, other.lease);
    total.was_lost |= other.was_lost;
  }
  total.server_incarnation =
      namespaces_.CompleteJoin(request.name_space, request.worker_name,
                               total.worker, std::move(incarnations));
  return total;
}

absl::StatusOr<JoinReply> ClusterConnection::JoinAt(const std::string& server,
                                                    bool is_home,
                                                    const JoinRequest& request,
                                                    const CallLimit& limit) {
  JoinRequest part = request;
  ASSIGN_OR_RETURN(part.namespace_uid, UidAt(server, request.name_space,
                                             request.namespace_uid, limit));
  part.replaces_epoch =
      namespaces_
          .ReplacedAt(server, request.name_space, request.worker_name,
                      request.replaces_epoch)
          .value_or(is_home ? request.replaces_epoch : 0);
  ASSIGN_OR_RETURN(JoinReply reply, servers_.At(server, part, limit));
  namespaces_.SetJoined(request.name_space, request.worker_name, server,
                        reply.worker);
  return reply;
}

absl::StatusOr<KeepAliveReply> ClusterConnection::Make(
    const KeepAliveRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.name_space, limit));
  const auto request_for = [&](const std::string& server) {
    KeepAliveRequest part = request;
    part.worker =
        WorkerAt(server, servers.front(), request.name_space, request.worker);
    return part;
  };
  ASSIGN_OR_RETURN(const std::vector<KeepAliveReply> replies,
                   AllOf(servers_.AtEach(servers, request_for, limit)));
  KeepAliveReply total = replies.front();
  for (const KeepAliveReply& reply : replies) {
    total.lease_remaining =
        std::min(total.lease_remaining, reply.lease_remaining);
    total.next_step = NextStepOf(namespaces_.ModeOf(request.name_space),
                                 total.next_step, reply.next_step);
  }
  return total;
}

absl::StatusOr<LeaveReply> ClusterConnection::Make(const LeaveRequest& request,
                                                   const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.name_space, limit));
  std::optional<Step> step;
  if (IsMirrored(request.name_space, servers.front(), limit)) {
    ASSIGN_OR_RETURN(const PlacementPtr placement, servers_.Placement(limit));
    step = StepAtItsMirror(*placement, request,
                           [&](const std::string& server, const auto& ask) {
                             return servers_.At(server, ask, limit);
                           });
  }
  const auto request_for = [&](const std::string& server) {
    LeaveRequest part = request;
    part.worker =
        WorkerAt(server, servers.front(), request.name_space, request.worker);
    part.step = step;
    return part;
  };
  std::vector<absl::Status> outcomes =
      StatusesOf(servers_.AtEach(servers, request_for, limit));
  for (size_t i = 1; i < outcomes.size(); ++i) {
    // Whoever is no member there has left.
    if (outcomes.front().ok() && IsNoMember(outcomes[i])) {
      outcomes[i] = absl::OkStatus();
    }
  }
  const absl::Status status = WorstOf(outcomes);
  if (status.ok() || absl::IsFailedPrecondition(status)) {
    namespaces_.Forget(request.name_space, request.worker);
  }
  RETURN_IF_ERROR(status);
  return LeaveReply();
}

absl::StatusOr<BarrierReply> ClusterConnection::Make(
    const BarrierRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
  for (int attempt = 0;; ++attempt) {
    const std::string& home =
        placement->servers[OwnerOf(*placement, request.name_space, "")].name;
    BarrierRequest part = request;
    part.worker = WorkerAt(home, home, request.name_space, request.worker);
    const absl::StatusOr<BarrierReply> reply = servers_.At(home, part, limit);
    // The home has moved.
    if (!IsAtWrongServer(reply.status()) || attempt + 1 == kMostAttempts) {
      return reply;
    }
    ASSIGN_OR_RETURN(
        placement,
        servers_.NewerThan(placement, VersionToldBy({reply.status()}), limit));
  }
}

// --- All others -------------------------------------------------------------

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClusterConnection::Make(
    const Request& request, const CallLimit& limit) {
  std::vector<std::string> servers;
  if constexpr (requires { request.name_space; }) {
    ASSIGN_OR_RETURN(servers, servers_.HomeFirst(request.name_space, limit));
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

// Whether such a call removes something. What an earlier one has removed from
// some servers is removed from the others; only what none has is not there.
template <typename Request>
constexpr bool kRemoves = std::is_same_v<Request, UnsetRuleRequest> ||
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
  absl::StatusOr<ReplyTo<Request>> reply =
      servers_.At(servers.front(), request, limit);
  if (!reply.ok() && !is_missing(reply.status())) return reply;
  auto others = servers_.AtEach(
      AfterFirst(servers), [&](const std::string&) { return request; }, limit);
  std::vector<absl::Status> errors;
  for (auto& other : others) {
    if (!is_missing(other.status())) errors.push_back(other.status());
    if (other.ok() && !reply.ok()) reply = *std::move(other);
  }
  RETURN_IF_ERROR(WorstOf(errors));
  return reply;
}

}  // namespace tensorkv
