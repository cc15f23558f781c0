// The verbs of workers: Join, KeepAlive, Leave, Barrier; and what follows when
// leases end.

#include "service/store/keyspace/workers/membership.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "contract/request_fields.h"
#include "service/store/keyspace/pull/pull_call.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// One Barrier from its call to its answer. Guarded by the namespace's mutex.
class BarrierCall final : public WaitingCall {
 public:
  BarrierCall(NamespaceState& state, BarrierRequest request,
              CallContext context, absl::Duration started,
              ReplyCallback<BarrierReply> done)
      : WaitingCall(std::move(context), started),
        state_(state),
        worker_(WorkerOf(request.worker())),
        barrier_(std::move(*request.mutable_barrier())),
        done_(std::move(done)) {
    topic = BarrierTopic(barrier_);
    reason = WaitReason::kBarrier;
  }

  bool CanEnd() override {
    answer_ = state_.workers->Check(worker_, state_.Now());
    if (answer_.ok()) answer_ = CheckNobodyLeft();
    // It is for the home of the namespace.
    if (const auto fence = state_.Fence(); fence && answer_.ok()) {
      answer_ = fence->CheckRead(state_.name, "");
    }
    return !answer_.ok();
  }
  absl::Status Missing() const override;
  void Fail(const absl::Status& status) override { answer_ = status; }
  void Send() override {
    absl::StatusOr<BarrierReply> reply = BarrierReply();
    if (!answer_.ok()) reply = answer_;
    SendOnce(std::move(done_), std::move(reply));
  }

  uint32_t rank() const { return worker_.rank; }

 private:
  // Errors: Aborted (WORKER_LEFT).
  absl::Status CheckNobodyLeft() const;

  NamespaceState& state_;
  const Worker worker_;
  const std::string barrier_;
  ReplyCallback<BarrierReply> done_;
  absl::Status answer_;
};

// Returns which ranks do not wait at a barrier, among those that it needs;
// `arrived` do.
std::vector<uint32_t> MissingAt(const NamespaceState& state,
                                absl::string_view topic,
                                std::optional<uint32_t> arrived) {
  std::vector<bool> is_there(state.workers->end_rank());
  for (const WaitingCallPtr& call : state.waits.At(topic)) {
    const uint32_t rank = static_cast<const BarrierCall&>(*call).rank();
    if (rank < is_there.size()) is_there[rank] = true;
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < is_there.size(); ++rank) {
    if (!is_there[rank] && rank != arrived &&
        state.workers->NeedsAtBarrier(rank)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

absl::Status BarrierCall::Missing() const {
  return state_.workers->MissingError(
      absl::StrCat("barrier ", Quoted(barrier_)),
      MissingAt(state_, topic, worker_.rank), state_.Now());
}

absl::Status BarrierCall::CheckNobodyLeft() const {
  const WorkerGroup& workers = *state_.workers;
  if (!workers.LacksThoseWhoLeft()) return absl::OkStatus();
  std::vector<uint32_t> left;
  for (uint32_t each = 0; each < workers.end_rank(); ++each) {
    if (workers.HasLeftSince(each, rank())) left.push_back(each);
  }
  if (left.empty()) return absl::OkStatus();
  return WithReason(
      workers.LeftError(absl::StrCat("barrier ", Quoted(barrier_)), left),
      Reason::kWorkerLeft, {{"ranks", absl::StrJoin(left, ",")}});
}

// Ends a barrier if nobody is missing.
void EndBarrier(Transaction& transaction, absl::string_view topic) {
  Waits& waits = transaction.state().waits;
  if (waits.At(topic).empty() ||
      !MissingAt(transaction.state(), topic, std::nullopt).empty()) {
    return;
  }
  for (const WaitingCallPtr& call : waits.Take(topic)) {
    EndCall(transaction, call);
  }
}

absl::Status CheckArrival(NamespaceState& state,
                          const BarrierRequest& request) {
  RETURN_IF_ERROR(CheckBarrierName(request.barrier()));
  const Worker worker = WorkerOf(request.worker());
  MutexLock lock(&state.mutex);
  RETURN_IF_ERROR(state.workers->Check(worker, state.Now()));
  state.workers->Renew(worker, state.Now());
  state.workers->Reach(worker, 0);
  return absl::OkStatus();
}

void EndBarriers(Transaction& transaction) {
  absl::flat_hash_set<std::string> topics;
  transaction.state().waits.ForEach([&](const WaitingCallPtr& call) {
    if (call->reason == WaitReason::kBarrier) topics.insert(call->topic);
  });
  for (const std::string& topic : topics) EndBarrier(transaction, topic);
}

void FailBarriers(Transaction& transaction, const absl::Status& status) {
  FailCalls(
      transaction,
      [](const WaitingCall& call) {
        return call.reason == WaitReason::kBarrier;
      },
      status);
}

// Statuses travel in HTTP/2 headers, which are small.
constexpr size_t kMostLossesNamed = 4;

RoundFailurePtr LossOf(const WorkerGroup& workers,
                       absl::Span<const uint32_t> ranks) {
  std::string text;
  for (const uint32_t rank : ranks.subspan(0, kMostLossesNamed)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    workers.DescribeLoss(rank));
  }
  if (ranks.size() > kMostLossesNamed) {
    absl::StrAppend(&text, " and ", ranks.size() - kMostLossesNamed,
                    " more were lost");
  }
  return std::make_shared<RoundFailure>(
      RoundFailure{std::move(text), {ranks.begin(), ranks.end()}});
}

// Fails the waits that only those who are lost could have ended.
void FailWaitsFor(Transaction& transaction, absl::Span<const uint32_t> ranks,
                  const RoundFailure& failure) {
  const NamespaceState& state = transaction.state();
  const auto aborted = [&](absl::string_view subject) {
    return WithReason(
        absl::AbortedError(absl::StrCat(subject, ": ", failure.text)),
        Reason::kWorkerLost, {{"ranks", absl::StrJoin(ranks, ",")}});
  };
  if (state.config.on_worker_loss == OnWorkerLoss::kFail) {
    Step slowest = UINT64_MAX;
    for (const uint32_t rank : ranks) {
      slowest = std::min(slowest, state.workers->step_of(rank));
    }
    FailCalls(
        transaction,
        [slowest](const WaitingCall& call) {
          return call.awaited_step > slowest;
        },
        aborted("waiting for slower workers"));
  }
  FailBarriers(transaction, aborted("barrier"));
}

// Does what must happen when workers are lost; `ranks` rise.
void Lose(Transaction& transaction, absl::Span<const uint32_t> ranks) {
  NamespaceState& state = transaction.state();
  const RoundFailurePtr failure = LossOf(*state.workers, ranks);
  for (const uint32_t rank : ranks) {
    transaction.ReportLostWorker(state.workers->DescribeLoss(rank));
  }
  std::vector<std::pair<StoredKey*, Step>> failed;
  if (state.config.on_worker_loss == OnWorkerLoss::kFail) {
    for (StoredKey* key : state.keys_with_rounds) {
      const std::optional<Step> step = key->rounds->FirstWithout(ranks);
      if (step) failed.emplace_back(key, *step);
    }
  }
  FailWaitsFor(transaction, ranks, *failure);
  for (const uint32_t rank : ranks) state.workers->Lose(rank);
  for (const auto& [key, step] : failed) {
    FailRounds(transaction, *key, step, failure);
  }
}

}  // namespace

void OnWorkersGone(Transaction& transaction, absl::Span<const uint32_t> ranks) {
  NamespaceState& state = transaction.state();
  Step last_open = 0;
  const std::vector<StoredKey*> keys(state.keys_with_rounds.begin(),
                                     state.keys_with_rounds.end());
  for (StoredKey* key : keys) {
    for (const uint32_t rank : ranks) {
      if (state.mode->MustRepush(rank) &&
          !state.workers->Needs(rank, UINT64_MAX)) {
        key->rounds->ClearRepush(rank);
      }
    }
    CloseRounds(transaction, *key, key->rounds->CloseComplete());
    if (state.workers->LacksThoseWhoLeft() && key->rounds->MayLack(ranks)) {
      EndPullsThatLackWorkers(transaction, *key);
    }
    last_open = std::max(last_open, key->rounds->last_open());
  }
  state.workers->LowerMaxStep(last_open);
  WakeAll(transaction);
  EndBarriers(transaction);
}

namespace {

void WatchLeases(NamespaceState& state);

// Runs when the alarm is due, as the next lease may have ended.
void EndLeases(NamespaceState& state) {
  Transaction transaction(state, Transaction::Thread::kAlarms);
  state.lease_alarm.MarkRung();
  const std::vector<uint32_t> ranks = state.workers->Expired(state.Now());
  if (!ranks.empty()) {
    Lose(transaction, ranks);
    OnWorkersGone(transaction, ranks);
  }
  WatchLeases(state);
}

void WatchLeases(NamespaceState& state) {
  state.lease_alarm.RingAt(state.workers->next_expiry(), state, &EndLeases);
}

// Reserves memory for the ranks up to `rank`, and adds them.
absl::Status ReserveRank(NamespaceState& state, uint32_t rank) {
  const uint32_t num_ranks = state.workers->num_ranks();
  if (rank < num_ranks) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      Reservation overhead,
      Reservation::Create(state.memory.metadata(),
                          (rank + 1 - num_ranks) * kWorkerOverheadBytes));
  state.worker_overhead.Merge(std::move(overhead));
  state.workers->ReserveRank(rank);
  return absl::OkStatus();
}

// Returns the step that a new worker of that rank is to push. Who comes after
// one that has left has no part in what that one has done, unless that is lost.
Step FirstStepAfterLeave(const NamespaceState& state, uint32_t rank) {
  const WorkerGroup& workers = *state.workers;
  const Step last = workers.step_of(rank);
  Step step = std::max(last == UINT64_MAX ? last : last + 1,
                       workers.first_step_of(rank));
  if (state.mode->MustRepush(rank) || workers.RepeatsStep(rank)) {
    step = std::min(step, state.mode->NextStepOf(rank));
  }
  for (const StoredKey* key : state.keys_with_rounds) {
    if (const auto awaited = key->rounds->FirstWithout({&rank, 1})) {
      step = std::min(step, *awaited);
    }
  }
  return step;
}

// Returns the step that a new worker of that rank is to push. A new process
// does not have what its former self has pushed ahead; it goes on where a round
// may yet fail that is to be pushed again. Keys are looked at for those alone
// who come back: nobody has part in rounds before the first step of the rank.
Step FirstStepOf(const NamespaceState& state, uint32_t rank) {
  Step step = state.mode->NextStepOf(rank);
  const Step first = std::max(state.workers->first_step_of(rank), Step{1});
  if (step <= first) return step;
  for (const StoredKey* key : state.keys_with_rounds) {
    while (step > first && key->rounds->Awaits(rank, step - 1)) --step;
  }
  return step;
}

// Returns an epoch that is above all that the server has given, above those of
// the group's members, which other servers may have given, and, as far as
// clocks go, above all that any server has given before.
uint64_t NewEpoch(const NamespaceState& state) {
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  std::atomic<uint64_t>& last = *state.environment.last_epoch;
  uint64_t before = last;
  uint64_t given = 0;
  do {
    given = std::max(now, before + 1);
  } while (!last.compare_exchange_weak(before, given));
  return std::max(given, state.workers->max_epoch() + 1);
}

// Bounds by how much the clocks of a cluster's servers may differ: a later
// epoch would keep out, for ever, all that homes give.
constexpr absl::Duration kMostAhead = absl::Hours(24);

// Checks the epoch that a Join brings from the namespace's home.
absl::Status CheckEpochOf(const JoinRequest& request) {
  if (request.epoch() == 0) return absl::OkStatus();
  if (!request.has_rank()) {
    return absl::InvalidArgumentError("epoch: expected a rank beside it");
  }
  const absl::Time most = absl::Now() + kMostAhead;
  if (request.epoch() <= static_cast<uint64_t>(absl::ToUnixNanos(most))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("epoch: expected nanoseconds since 1970, at most a day from "
                   "now, got ",
                   request.epoch()));
}

// Ends the former life of the worker on another rank than the namespace's home
// has given it: at home it was lost, and whoever renews its lease here would
// keep the worker out.
void LoseOnOtherRank(Transaction& transaction, const JoinRequest& request) {
  NamespaceState& state = transaction.state();
  const std::optional<Worker> former =
      state.workers->FormerOf(request.worker_name(), request.rank());
  if (!former) return;
  state.workers->EndLease(*former, state.Now());
  Lose(transaction, {former->rank});
  OnWorkersGone(transaction, {former->rank});
}

absl::StatusOr<JoinReply> AddWorker(Transaction& transaction,
                                    const JoinRequest& from_caller,
                                    absl::Duration lease) {
  NamespaceState& state = transaction.state();
  RETURN_IF_ERROR(state.end_of_waits);
  JoinRequest request = from_caller;
  std::optional<uint32_t> wanted_rank;
  if (request.has_rank()) wanted_rank = request.rank();
  if (request.epoch() == 0) {
    request.set_epoch(NewEpoch(state));
  } else {
    ASSIGN_OR_RETURN(const uint64_t before,
                     state.workers->EpochBefore(
                         request.worker_name(),
                         {.rank = request.rank(), .epoch = request.epoch()}));
    request.set_replaces_epoch(before);
    LoseOnOtherRank(transaction, request);
  }
  const absl::StatusOr<uint32_t> rank = state.workers->RankFor(
      request.worker_name(), request.replaces_epoch(), wanted_rank);
  bool was_lost = false;
  bool had_left = false;
  if (rank.ok()) {
    RETURN_IF_ERROR(ReserveRank(state, *rank));
    was_lost = state.workers->WasLost(*rank, request.worker_name());
    had_left = state.workers->HasLeft(*rank);
  }
  ASSIGN_OR_RETURN(
      const Worker worker,
      state.workers->Join(request.worker_name(), lease, request.epoch(),
                          request.replaces_epoch(), state.mode->StepOfJoiner(),
                          state.Now(), wanted_rank));
  WatchLeases(state);
  JoinReply reply;
  SetWorker(worker, reply.mutable_worker());
  reply.set_num_workers(state.workers->num_workers());
  EncodeDuration(lease, reply.mutable_lease());
  reply.set_next_step(had_left ? FirstStepAfterLeave(state, worker.rank)
                               : FirstStepOf(state, worker.rank));
  reply.set_lost_before(was_lost);
  return reply;
}

absl::StatusOr<JoinReply> AddWorkerAndWake(NamespaceState& state,
                                           const JoinRequest& request,
                                           absl::Duration lease) {
  Transaction transaction(state);
  const bool was_formed = state.workers->is_formed();
  absl::StatusOr<JoinReply> reply = AddWorker(transaction, request, lease);
  if (!reply.ok()) return reply;
  // An elastic group then awaits none of those who have not come, or were lost.
  if (state.workers->is_formed() && !was_formed) {
    std::vector<uint32_t> ranks(state.workers->num_ranks());
    std::iota(ranks.begin(), ranks.end(), 0);
    OnWorkersGone(transaction, ranks);
  }
  // The calls of the epoch that was replaced end.
  if (request.replaces_epoch() != 0 || request.epoch() != 0) {
    WakeAll(transaction);
  }
  return reply;
}

absl::Status RemoveWorker(NamespaceState& state, const LeaveRequest& request) {
  const Worker worker = WorkerOf(request.worker());
  std::optional<Step> last_step;
  if (request.has_step()) last_step = request.step();
  Transaction transaction(state);
  RETURN_IF_ERROR(state.workers->CheckJoined(worker, state.Now()));
  if (request.lost()) {
    state.workers->EndLease(worker, state.Now());
    Lose(transaction, {worker.rank});
  } else {
    state.workers->Leave(worker, last_step);
  }
  OnWorkersGone(transaction, {worker.rank});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JoinReply> Namespace::Join(const JoinRequest& request,
                                          const CallContext&) {
  RETURN_IF_ERROR(CheckWorkerName(request.worker_name()));
  RETURN_IF_ERROR(CheckEpochOf(request));
  ASSIGN_OR_RETURN(const absl::Duration lease,
                   DecodeDuration("lease", request.lease()));
  ASSIGN_OR_RETURN(JoinReply reply, AddWorkerAndWake(*state_, request, lease));
  state_->Report(StoreEvent::kWorkerJoined,
                 absl::StrCat("rank ", reply.worker().rank(), " (",
                              Quoted(request.worker_name()), ")"));
  return reply;
}

absl::StatusOr<KeepAliveReply> Namespace::KeepAlive(
    const KeepAliveRequest& request, const CallContext&) {
  const Worker worker = WorkerOf(request.worker());
  MutexLock lock(&state_->mutex);
  const absl::Duration now = state_->Now();
  RETURN_IF_ERROR(state_->workers->CheckJoined(worker, now));
  state_->workers->Renew(worker, now);
  KeepAliveReply reply;
  EncodeDuration(state_->workers->LeaseRemaining(worker, now),
                 reply.mutable_lease_remaining());
  reply.set_num_workers(state_->workers->num_workers());
  reply.set_next_step(state_->mode->NextStepOf(worker.rank));
  return reply;
}

absl::Status Namespace::Leave(const LeaveRequest& request, const CallContext&) {
  RETURN_IF_ERROR(RemoveWorker(*state_, request));
  // The loss has been reported.
  if (request.lost()) return absl::OkStatus();
  state_->Report(StoreEvent::kWorkerLeft,
                 absl::StrCat("rank ", WorkerOf(request.worker()).rank));
  return absl::OkStatus();
}

void Namespace::Barrier(BarrierRequest request, CallContext context,
                        ReplyCallback<BarrierReply> done) {
  absl::Status status = CheckArrival(*state_, request);
  if (!status.ok()) return std::move(done)(std::move(status));
  const auto call = std::make_shared<BarrierCall>(
      *state_, std::move(request), std::move(context), state_->Now(),
      std::move(done));
  const std::string topic = call->topic;
  StartCall(*state_, call);
  Transaction transaction(*state_);
  EndBarrier(transaction, topic);
}

}  // namespace tensorkv
