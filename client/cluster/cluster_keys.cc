// Calls about keys, at the servers that own them.

#include "client/cluster/cluster_keys.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "client/canceller.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/mirrored_calls.h"
#include "client/cluster/placed_server.h"
#include "client/cluster/publishing.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Elements take no more; those of a contribution may take less than the key's.
constexpr uint64_t kMaxElementBytes = 8;

// Bounds how often a call is made by other layouts that somebody has made
// meanwhile.
constexpr int kMostRepeats = 3;

// Calls that change nothing, and may be made by other layouts after all.
template <typename Request>
inline constexpr bool kReads = std::is_base_of_v<PullRequest, Request> ||
                               std::is_same_v<Request, GetStateRequest> ||
                               std::is_same_v<Request, StatRequest>;

template <typename Request>
bool WaitsForKeys(const Request& request) {
  if constexpr (requires { request.wait_for_keys; }) {
    return request.wait_for_keys;
  } else {
    return false;
  }
}

bool IsOfMissingKey(const absl::Status& status) {
  return ReasonOf(status) == Reason::kKeyNotFound;
}

// Returns whether the call would be another by the other layouts.
template <typename Request>
bool Differ(const SplitLayouts* a, const SplitLayouts* b,
            const Request& request) {
  return absl::c_any_of(EntriesIn(request), [&](const auto& entry) {
    const SplitLayout* const in_a = FindLayout(a, KeyIn(entry));
    const SplitLayout* const in_b = FindLayout(b, KeyIn(entry));
    if (in_a == nullptr || in_b == nullptr) return in_a != in_b;
    return !(*in_a == *in_b);
  });
}

// Returns a request for the status of the keys of a call.
template <typename Request>
StatRequest StatOfKeysIn(const Request& request) {
  StatRequest stat;
  stat.set_namespace_(NamespaceIn(request));
  stat.set_namespace_uid(NamespaceUidIn(request));
  for (const auto& entry : EntriesIn(request)) stat.add_keys(KeyIn(entry));
  return stat;
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

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::Make(
    const Request& request, const CallLimit& limit) {
  if constexpr (kMayReadSnapshot<Request>) {
    if (SnapshotIn(request) != nullptr) {
      co_return co_await snapshots_.Read(request, limit);
    }
  }
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  if (placement->split_bytes == 0) {
    co_return co_await MakeBy(/*layouts=*/nullptr, request, limit);
  }
  if constexpr (std::is_same_v<Request, InitRequest>) {
    co_return co_await CreateKeys(request, *placement, limit);
  }
  auto reply = co_await MakeOfKeys(request, *placement, limit);
  if constexpr (std::is_same_v<Request, DeleteRequest>) {
    namespaces_.LearnLayouts(request.namespace_(), nullptr);
  }
  co_return reply;
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::MakeOfKeys(
    const Request& request, const ClusterPlacement& placement,
    const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(SplitLayoutsPtr layouts,
                      co_await LayoutsFor(request, placement, limit));
  // Has a value once it is another call than the one that was asked for.
  std::optional<Request> next;
  for (int attempt = 0;; ++attempt) {
    if constexpr (requires { request.wait_for_keys; }) {
      if (request.wait_for_keys) {
        const StatRequest stat = StatOfKeysIn(request);
        Task<absl::StatusOr<SplitLayoutsPtr>> awaited =
            AwaitKeys(stat, layouts, limit);
        CO_ASSIGN_OR_RETURN(layouts, co_await awaited);
        next = request;
        next->wait_for_keys = false;
      }
    } else if (attempt > 0) {
      next = request;
      NameAttempt("~", attempt, *next);
    }
    const Request& made = next ? *next : request;
    auto reply = co_await MakeBy(layouts.get(), made, limit);
    if (!IsOfMissingKey(reply.status())) co_return reply;
    CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr newer,
                        co_await Refresh(NamespaceIn(request), limit));
    const bool may_be_repeated =
        (kReads<Request> || HadNoEffect(reply.status())) &&
        attempt < kMostRepeats;
    const bool may_be_found =
        may_be_repeated && Differ(layouts.get(), newer.get(), request);
    layouts = newer;
    // Keys that are waited for may go again before they are read.
    if (!may_be_found && !WaitsForKeys(request)) co_return reply;
  }
}

template <typename Request>
Task<absl::StatusOr<SplitLayoutsPtr>> ClusterKeys::LayoutsFor(
    const Request& request, const ClusterPlacement& placement,
    const CallLimit& limit) {
  if constexpr (std::is_same_v<Request, SetStateRequest> ||
                std::is_same_v<Request, DeleteRequest>) {
    co_return co_await Refresh(NamespaceIn(request), limit);
  }
  CO_ASSIGN_OR_RETURN(const KnownNamespace known,
                      co_await KnowFor(request, limit));
  SplitLayoutsPtr layouts = known.layouts;
  if (layouts == nullptr) {
    CO_ASSIGN_OR_RETURN(layouts, co_await Refresh(NamespaceIn(request), limit));
  }
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    if (!MayBeUnknown(request, *layouts, placement)) co_return layouts;
    CO_ASSIGN_OR_RETURN(layouts, co_await Refresh(request.name_space, limit));
    for (const PushEntry& entry : request.entries) {
      if (FindLayout(layouts.get(), entry.key) != nullptr) continue;
      namespaces_.SetKnownWhole(request.name_space, entry.key);
    }
  }
  co_return layouts;
}

bool ClusterKeys::MayBeUnknown(const PushRequest& request,
                               const SplitLayouts& layouts,
                               const ClusterPlacement& placement) const {
  return absl::c_any_of(request.entries, [&](const PushEntry& entry) {
    const bool is_part = entry.skip || entry.rows != nullptr;
    const SplitLayout* const layout = FindLayout(&layouts, entry.key);
    if (layout != nullptr) return !is_part && entry.shape() != layout->shape;
    const uint64_t num_elements = entry.shape().num_elements();
    const bool may_be_large =
        is_part || num_elements * kMaxElementBytes > placement.split_bytes;
    return may_be_large &&
           !namespaces_.IsKnownWhole(request.name_space, entry.key);
  });
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::MakeBy(
    const SplitLayouts* layouts, const Request& request,
    const CallLimit& limit) {
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
        if (takes_shares) return Publish(layouts, made, known, limit);
      }
      return known.is_mirrored ? MakeMirrored(layouts, made, known, limit)
                               : MakePlaced(layouts, made, known, limit);
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
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::Publish(
    const SplitLayouts* layouts, const Request& request,
    const KnownNamespace& known, const CallLimit& limit) {
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
    Task<absl::StatusOr<ReplyTo<Request>>> make =
        MakePlaced(layouts, part, known, limit, &publication->published_by);
    absl::StatusOr<ReplyTo<Request>> reply = co_await make;
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
Task<absl::StatusOr<KnownNamespace>> ClusterKeys::KnowFor(
    const Request& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  for (int attempt = 0;; ++attempt) {
    absl::StatusOr<KnownNamespace> known = co_await namespaces_.KnowAt(
        FirstOwner(*placement, request), NamespaceIn(request),
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
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::MakePlaced(
    const SplitLayouts* layouts, const Request& request, KnownNamespace known,
    const CallLimit& limit, std::set<std::string>* published_by) {
  CO_ASSIGN_OR_RETURN(auto call, CallShares<Request>::Create(
                                     request, layouts, limit.destinations));
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
      co_return call.Whole(std::move(progress.reply));
    }
    const uint64_t told = VersionToldBy(progress.refusals);
    const bool finds_another =
        absl::c_any_of(progress.refusals, IsOfFormerNamespace);
    // By the same placement servers refuse workers only, which those of
    // mirrored namespaces do.
    if ((finds_another || told <= placement->version) &&
        !progress.refused_by.empty()) {
      CO_RETURN_IF_ERROR(co_await namespaces_.KnowAnew(
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
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::MakeMirrored(
    const SplitLayouts* layouts, const Request& request, KnownNamespace known,
    const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(auto call, CallShares<Request>::Create(
                                     request, layouts, limit.destinations));
  CallLimit of_pieces = limit;
  of_pieces.destinations = call.destinations();
  Task<absl::StatusOr<ReplyTo<Request>>> make =
      MakeMirroredPieces(call.made(), known, of_pieces);
  CO_ASSIGN_OR_RETURN(auto reply, co_await make);
  co_return call.Whole(std::move(reply));
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::MakeMirroredPieces(
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
        CO_RETURN_IF_ERROR(co_await namespaces_.KnowAnew(
            server, NamespaceIn(request), limit, known));
      }
      CO_ASSIGN_OR_RETURN(placement,
                          co_await servers_.NewerThan(placement, told, limit));
    }
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::CallFor(
    const KnownNamespace& known, const std::string& server,
    const Request& request, const CallLimit& limit) {
  Request named = request;
  NameUid(known, named);
  co_return co_await servers_.At(server, named, limit, limit.destinations);
}

template <typename Request>
Task<std::vector<absl::StatusOr<ReplyTo<Request>>>> ClusterKeys::MakeShares(
    const CallShares<Request>& call, absl::Span<const CallShare> shares,
    int attempt, const CallLimit& limit, Progress<Request>& progress) {
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
void ClusterKeys::TakeAnswers(const CallShares<Request>& call,
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
Task<absl::StatusOr<ReplyTo<Request>>> ClusterKeys::MakeShare(
    const CallShares<Request>& call, const CallShare& share,
    const Progress<Request>& progress, int attempt, const CallLimit& limit) {
  Request request = call.Share(share.places);
  NameUid(progress.known, request);
  NameAttempt("#", attempt, request);
  const std::vector<Destination> destinations =
      call.DestinationsAt(share.places);
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

// They are called from elsewhere.
template Task<absl::StatusOr<ReplyTo<InitRequest>>> ClusterKeys::Make(
    const InitRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<SetStateRequest>>> ClusterKeys::Make(
    const SetStateRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<GetStateRequest>>> ClusterKeys::Make(
    const GetStateRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<PushRequest>>> ClusterKeys::Make(
    const PushRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<PushRowsRequest>>> ClusterKeys::Make(
    const PushRowsRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<PullRequest>>> ClusterKeys::Make(
    const PullRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<PullRowsRequest>>> ClusterKeys::Make(
    const PullRowsRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<PushPullRequest>>> ClusterKeys::Make(
    const PushPullRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<StatRequest>>> ClusterKeys::Make(
    const StatRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<DeleteRequest>>> ClusterKeys::Make(
    const DeleteRequest& request, const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<InitRequest>>> ClusterKeys::MakeBy(
    const SplitLayouts* layouts, const InitRequest& request,
    const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<PullRowsRequest>>> ClusterKeys::MakeBy(
    const SplitLayouts* layouts, const PullRowsRequest& request,
    const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<StatRequest>>> ClusterKeys::MakeBy(
    const SplitLayouts* layouts, const StatRequest& request,
    const CallLimit& limit);
template Task<absl::StatusOr<ReplyTo<DeleteRequest>>> ClusterKeys::MakeBy(
    const SplitLayouts* layouts, const DeleteRequest& request,
    const CallLimit& limit);

}  // namespace tensorkv
