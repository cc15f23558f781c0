#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Statuses travel in HTTP/2 headers, which are small.
constexpr size_t kMostLossesNamed = 4;

}  // namespace

// One Barrier from its call to its answer. Guarded by the namespace's mutex.
class Namespace::BarrierCall final : public WaitingCall {
 public:
  BarrierCall(Namespace* name_space, BarrierRequest request,
              CallContext context, absl::Duration started,
              ReplyCallback<BarrierReply> done)
      : WaitingCall(std::move(context), started),
        namespace_(*name_space),
        request_(std::move(request)),
        done_(std::move(done)) {
    topic = BarrierTopic(request_.barrier);
    reason = WaitReason::kBarrier;
  }

  bool CanEnd() override {
    answer_ = namespace_.workers_->Check(request_.worker,
                                         namespace_.environment_.alarms->Now());
    return !answer_.ok();
  }
  absl::Status Missing() const override {
    return namespace_.WaitingForRanks(
        absl::StrCat("barrier ", Quoted(request_.barrier)),
        namespace_.MissingAt(topic, request_.worker.rank));
  }
  void Fail(const absl::Status& status) override { answer_ = status; }
  void Send() override {
    absl::StatusOr<BarrierReply> reply = BarrierReply();
    if (!answer_.ok()) reply = answer_;
    SendOnce(std::move(done_), std::move(reply));
  }

  uint32_t rank() const { return request_.worker.rank; }

 private:
  Namespace& namespace_;
  const BarrierRequest request_;
  ReplyCallback<BarrierReply> done_;
  absl::Status answer_;
};

WorkerGroupOptions Namespace::GroupOptionsOf(
    const NamespaceConfig& config, const NamespaceEnvironment& environment) {
  // An async namespace takes whoever comes.
  const bool is_async = config.mode == Mode::kAsync;
  return {.min_workers = is_async ? 0 : config.num_workers,
          .max_workers = is_async
                             ? kMaxWorkers
                             : std::max(config.num_workers, config.max_workers),
          .on_worker_loss = config.on_worker_loss,
          .min_lease = environment.min_lease,
          .max_lease = environment.max_lease};
}

absl::StatusOr<JoinReply> Namespace::Join(const JoinRequest& request) {
  RETURN_IF_ERROR(CheckWorkerName(request.worker_name));
  Replies replies;
  absl::StatusOr<JoinReply> reply;
  {
    MutexLock lock(&mutex_);
    reply = Admit(request);
    // The calls of the epoch that was replaced.
    if (reply.ok() && request.replaces_epoch != 0) WakeAll(replies);
  }
  Send(std::move(replies));
  return reply;
}

absl::StatusOr<JoinReply> Namespace::Admit(const JoinRequest& request) {
  RETURN_IF_ERROR(no_waits_);
  const absl::StatusOr<uint32_t> rank =
      workers_->RankFor(request.worker_name, request.replaces_epoch);
  if (rank.ok()) RETURN_IF_ERROR(MakePlace(*rank));
  ASSIGN_OR_RETURN(const Worker worker,
                   workers_->Join(request.worker_name, request.lease,
                                  environment_.next_epoch->fetch_add(1),
                                  request.replaces_epoch, mode_->StepOfJoiner(),
                                  environment_.alarms->Now()));
  WatchLeases();
  // A new process does not have what its former self has pushed ahead; it goes
  // on where a round may yet fail that is to be pushed again.
  Step next_step = mode_->NextStepOf(worker.rank);
  for (const StoredKey* key : busy_keys_) {
    while (key->rounds->Awaits(worker.rank, next_step - 1)) --next_step;
  }
  return JoinReply{.worker = worker,
                   .num_workers = workers_->num_workers(),
                   .lease = request.lease,
                   .next_step = next_step};
}

absl::StatusOr<KeepAliveReply> Namespace::KeepAlive(
    const KeepAliveRequest& request) {
  MutexLock lock(&mutex_);
  const absl::Duration now = environment_.alarms->Now();
  RETURN_IF_ERROR(workers_->CheckJoined(request.worker, now));
  workers_->Renew(request.worker, now);
  return KeepAliveReply{
      .lease_remaining = workers_->LeaseRemaining(request.worker, now),
      .num_workers = workers_->num_workers(),
      .next_step = mode_->NextStepOf(request.worker.rank)};
}

absl::Status Namespace::Leave(const LeaveRequest& request) {
  Replies replies;
  Work work{UpdatePass(environment_.devices, memory_.host().contributions)};
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(
        workers_->CheckJoined(request.worker, environment_.alarms->Now()));
    workers_->Leave(request.worker);
    GoOnWithout({request.worker.rank}, work, replies);
  }
  Send(std::move(replies));
  Run(std::move(work));
  return absl::OkStatus();
}

absl::Status Namespace::Admit(const std::optional<Worker>& worker) {
  if (!worker) return absl::OkStatus();
  const absl::Duration now = environment_.alarms->Now();
  RETURN_IF_ERROR(mode_->CheckWorker(worker, now));
  workers_->Renew(*worker, now);
  return absl::OkStatus();
}

Step Namespace::AwaitedStep(Step step) const {
  const Step awaited = mode_->StepToAwait(step);
  return awaited > 0 && workers_->slowest_step() < awaited ? awaited : 0;
}

absl::Status Namespace::DescribeAwaited(Step step) const {
  return WaitingForRanks(absl::StrCat("step ", step),
                         workers_->NeededBelow(step));
}

absl::Status Namespace::WaitingForRanks(
    absl::string_view subject, absl::Span<const uint32_t> ranks) const {
  return WithReason(absl::DeadlineExceededError(absl::StrCat(
                        subject, ": waiting for ",
                        workers_->Describe(ranks, environment_.alarms->Now()))),
                    Reason::kWaitEnded, {{"ranks", absl::StrJoin(ranks, ",")}});
}

void Namespace::Barrier(BarrierRequest request, CallContext context,
                        ReplyCallback<BarrierReply> done) {
  absl::Status status = CheckBarrierName(request.barrier);
  if (status.ok()) {
    MutexLock lock(&mutex_);
    const absl::Duration now = environment_.alarms->Now();
    status = workers_->Check(request.worker, now);
    if (status.ok()) {
      workers_->Renew(request.worker, now);
      workers_->Reach(request.worker, 0);
    }
  }
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return;
  }
  const auto call = std::make_shared<BarrierCall>(
      this, std::move(request), std::move(context), environment_.alarms->Now(),
      std::move(done));
  const std::string topic = call->topic;
  Start(call);
  Replies replies;
  {
    MutexLock lock(&mutex_);
    EndBarrier(topic, replies);
  }
  Send(std::move(replies));
}

std::vector<uint32_t> Namespace::MissingAt(
    absl::string_view topic, std::optional<uint32_t> arrived) const {
  std::vector<bool> is_there(workers_->end_rank());
  for (const WaitingCallPtr& call : waits_.At(topic)) {
    const uint32_t rank = static_cast<const BarrierCall&>(*call).rank();
    if (rank < is_there.size()) is_there[rank] = true;
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < is_there.size(); ++rank) {
    if (!is_there[rank] && rank != arrived &&
        workers_->Needs(rank, UINT64_MAX)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

void Namespace::EndBarrier(absl::string_view topic, Replies& replies) {
  if (waits_.At(topic).empty() || !MissingAt(topic, std::nullopt).empty()) {
    return;
  }
  for (const WaitingCallPtr& call : waits_.Take(topic)) Finish(call, replies);
}

void Namespace::GoOnWithout(absl::Span<const uint32_t> ranks, Work& work,
                            Replies& replies) {
  Step last_open = 0;
  const std::vector<StoredKey*> busy(busy_keys_.begin(), busy_keys_.end());
  for (StoredKey* key : busy) {
    for (const uint32_t rank : ranks) {
      if (mode_->Owes(rank) && !workers_->Needs(rank, UINT64_MAX)) {
        key->rounds->Forgive(rank);
      }
    }
    EnqueueRounds(*key, UpdatesOf(key->rounds->TakeComplete()), work, replies);
    last_open = std::max(last_open, key->rounds->last_open());
  }
  workers_->LowerMaxStep(last_open);
  WakeAll(replies);
  absl::flat_hash_set<std::string> barriers;
  waits_.ForEach([&](const WaitingCallPtr& call) {
    if (call->reason == WaitReason::kBarrier) barriers.insert(call->topic);
  });
  for (const std::string& topic : barriers) EndBarrier(topic, replies);
}

void Namespace::WatchLeases() {
  const absl::Duration next = workers_->next_expiry();
  if (next >= lease_alarm_time_) return;
  if (lease_alarm_ != 0) environment_.alarms->Cancel(lease_alarm_);
  lease_alarm_time_ = next;
  lease_alarm_ =
      environment_.alarms->Schedule(next, [weak_this = weak_from_this()] {
        if (const auto self = weak_this.lock()) self->EndLeases();
      });
}

void Namespace::EndLeases() {
  Replies replies;
  Work work{UpdatePass(environment_.devices, memory_.host().contributions)};
  {
    MutexLock lock(&mutex_);
    lease_alarm_ = 0;
    lease_alarm_time_ = absl::InfiniteDuration();
    const std::vector<uint32_t> ranks =
        workers_->Expired(environment_.alarms->Now());
    if (!ranks.empty()) {
      Lose(ranks, replies);
      GoOnWithout(ranks, work, replies);
    }
    WatchLeases();
  }
  SendLater(std::move(replies));
  RunLater(std::move(work));
}

void Namespace::Lose(absl::Span<const uint32_t> ranks, Replies& replies) {
  const RoundFailurePtr failure = LossOf(ranks);
  const auto aborted = [&](absl::string_view subject) {
    return WithReason(
        absl::AbortedError(absl::StrCat(subject, ": ", failure->text)),
        Reason::kWorkerLost, {{"ranks", absl::StrJoin(ranks, ",")}});
  };
  std::vector<std::pair<StoredKey*, Step>> failed;
  for (const uint32_t rank : ranks) {
    replies.lost_workers.push_back(workers_->DescribeLoss(rank));
  }
  if (config_.on_worker_loss == OnWorkerLoss::kFail) {
    for (StoredKey* key : busy_keys_) {
      const std::optional<Step> step = key->rounds->FirstWithout(ranks);
      if (step) failed.emplace_back(key, *step);
    }
    Step slowest = UINT64_MAX;
    for (const uint32_t rank : ranks) {
      slowest = std::min(slowest, workers_->step_of(rank));
    }
    FailWaits(
        [slowest](const WaitingCall& call) {
          return call.awaited_step > slowest;
        },
        aborted("waiting for slower workers"), replies);
  }
  FailWaits(
      [](const WaitingCall& call) {
        return call.reason == WaitReason::kBarrier;
      },
      aborted("barrier"), replies);
  for (const uint32_t rank : ranks) workers_->Lose(rank);
  for (const auto& [key, step] : failed) {
    FailRounds(*key, step, failure, replies);
  }
}

RoundFailurePtr Namespace::LossOf(absl::Span<const uint32_t> ranks) const {
  std::string text;
  for (const uint32_t rank : ranks.subspan(0, kMostLossesNamed)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    workers_->DescribeLoss(rank));
  }
  if (ranks.size() > kMostLossesNamed) {
    absl::StrAppend(&text, " and ", ranks.size() - kMostLossesNamed,
                    " more were lost");
  }
  return std::make_shared<RoundFailure>(
      RoundFailure{std::move(text), {ranks.begin(), ranks.end()}});
}

void Namespace::WatchGrace(std::vector<OpenedRound> opened) {
  if (opened.empty()) return;
  MutexLock lock(&mutex_);
  SweepGraces();
  const uint64_t id = ++last_grace_id_;
  const Alarms::Id alarm = environment_.alarms->Schedule(
      environment_.alarms->Now() + config_.quorum_grace,
      [weak_this = weak_from_this(), id] {
        if (const auto self = weak_this.lock()) self->EndGrace(id);
      });
  graces_.emplace(id, Grace{std::move(opened), alarm});
}

Rounds* Namespace::FindOpen(const OpenedRound& round) {
  StoredKey* const key = keys_.Find(round.key);
  if (key == nullptr || !key->rounds) return nullptr;
  return key->rounds->IsOpen(round.step, round.id) ? key->rounds.get()
                                                   : nullptr;
}

void Namespace::SweepGraces() {
  if (graces_.size() < graces_to_sweep_) return;
  for (auto it = graces_.begin(); it != graces_.end();) {
    const auto grace = it++;
    const std::vector<OpenedRound>& rounds = grace->second.rounds;
    if (std::any_of(rounds.begin(), rounds.end(),
                    [&](const OpenedRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                        mutex_) { return FindOpen(round) != nullptr; })) {
      continue;
    }
    environment_.alarms->Cancel(grace->second.alarm);
    graces_.erase(grace);
  }
  graces_to_sweep_ = std::max(kMinGracesToSweep, 2 * graces_.size());
}

void Namespace::EndGrace(uint64_t id) {
  Replies replies;
  Work work{UpdatePass(environment_.devices, memory_.host().contributions)};
  {
    MutexLock lock(&mutex_);
    const auto grace = graces_.extract(id);
    if (grace.empty()) return;
    for (const OpenedRound& round : grace.mapped().rounds) {
      Rounds* const rounds = FindOpen(round);
      if (rounds == nullptr) continue;
      EnqueueRounds(*keys_.Find(round.key),
                    UpdatesOf(rounds->EndGrace(round.step, round.id)), work,
                    replies);
    }
  }
  SendLater(std::move(replies));
  RunLater(std::move(work));
}

// On the alarms' thread nothing may take long. Values on the host are sent by
// reference; others must be copied first.
void Namespace::SendLater(Replies replies) {
  if (is_on_host_ || replies.calls.empty()) return Send(std::move(replies));
  // Shared: whichever way it goes, the callers get their answers.
  const auto shared = std::make_shared<Replies>(std::move(replies));
  const bool is_submitted =
      Submit([self = shared_from_this(), shared]() mutable {
        self->Send(std::move(*shared));
      });
  if (!is_submitted) Send(std::move(*shared));
}

void Namespace::RunLater(Work work) {
  if (work.empty()) return;
  Submit([self = shared_from_this(), work = std::move(work)]() mutable {
    self->RunHere(std::move(work));
  });
}

bool Namespace::Submit(TaskPool::Task&& task) {
  return environment_.pool->Submit(name_, std::move(task));
}

absl::Status Namespace::MakePlace(uint32_t rank) {
  if (rank < workers_->num_places()) return absl::OkStatus();
  const uint64_t bytes =
      (rank + 1 - workers_->num_places()) * kWorkerOverheadBytes;
  ASSIGN_OR_RETURN(Reservation overhead,
                   Reservation::Create(memory_.metadata(), bytes));
  worker_overhead_.Merge(std::move(overhead));
  workers_->MakePlace(rank);
  return absl::OkStatus();
}

}  // namespace tensorkv
