#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"
#include "service/store/namespace.h"

namespace tensorkv {

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
    answer_ = CheckCaller();
    return !answer_.ok();
  }
  std::string Missing() const override {
    return absl::StrCat("barrier ", Quoted(request_.barrier), ": waiting for ",
                        namespace_.workers_->Describe(
                            namespace_.MissingAt(topic, request_.worker.rank),
                            namespace_.environment_.alarms->Now()));
  }
  void Fail(const absl::Status& status) override { answer_ = status; }
  void Send() override {
    absl::StatusOr<BarrierReply> reply = BarrierReply();
    if (!answer_.ok()) reply = answer_;
    SendOnce(std::move(done_), std::move(reply));
  }

  uint32_t rank() const { return request_.worker.rank; }

 private:
  absl::Status CheckCaller() const {
    RETURN_IF_ERROR(namespace_.workers_->CheckJoined(
        request_.worker, namespace_.environment_.alarms->Now()));
    return namespace_.failures_.Take(request_.worker.rank);
  }

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
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(no_waits_);
  const absl::StatusOr<uint32_t> rank = workers_->RankFor(request.worker_name);
  if (rank.ok()) RETURN_IF_ERROR(MakePlace(*rank));
  ASSIGN_OR_RETURN(
      const Worker worker,
      workers_->Join(request.worker_name, request.lease,
                     environment_.next_epoch->fetch_add(1),
                     mode_->StepOfJoiner(), environment_.alarms->Now()));
  // Those were of whoever had the rank before.
  failures_.Forget(worker.rank);
  WatchLeases();
  return JoinReply{.worker = worker,
                   .num_workers = workers_->num_workers(),
                   .lease = request.lease,
                   .next_step = workers_->step_of(worker.rank) + 1};
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
      .next_step = workers_->step_of(request.worker.rank) + 1};
}

absl::Status Namespace::Leave(const LeaveRequest& request) {
  Replies replies;
  Work work{UpdatePass(environment_.devices, memory_.host().contributions)};
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(
        workers_->CheckJoined(request.worker, environment_.alarms->Now()));
    workers_->Leave(request.worker);
    failures_.Forget(request.worker.rank);
    GoOnWithoutTheGone(work, replies);
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
  return workers_->slowest_step() < awaited ? awaited : 0;
}

std::string Namespace::DescribeAwaited(Step step) const {
  return absl::StrCat("step ", step, ": waiting for ",
                      workers_->Describe(workers_->NeededBelow(step),
                                         environment_.alarms->Now()));
}

void Namespace::Barrier(BarrierRequest request, CallContext context,
                        ReplyCallback<BarrierReply> done) {
  absl::Status status = CheckBarrierName(request.barrier);
  if (status.ok()) {
    MutexLock lock(&mutex_);
    const absl::Duration now = environment_.alarms->Now();
    status = workers_->CheckJoined(request.worker, now);
    if (status.ok()) workers_->Renew(request.worker, now);
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

void Namespace::GoOnWithoutTheGone(Work& work, Replies& replies) {
  if (rounds_open_ > 0) {
    keys_.ForEach([&](StoredKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (!key.rounds || key.rounds->num_open() == 0) return;
      EnqueueRounds(key, UpdatesOf(key.rounds->TakeComplete()), work, replies);
    });
  }
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
    for (const uint32_t rank : ranks) Lose(rank, replies);
    if (!ranks.empty()) GoOnWithoutTheGone(work, replies);
    WatchLeases();
  }
  SendLater(std::move(replies));
  RunLater(std::move(work));
}

void Namespace::Lose(uint32_t rank, Replies& replies) {
  const std::string reason = workers_->DescribeLoss(rank);
  if (config_.on_worker_loss == OnWorkerLoss::kFail) {
    FailRoundsWithout(rank, reason, replies);
    const Step step = workers_->step_of(rank);
    FailWaits(
        [step](const WaitingCall& call) { return call.awaited_step > step; },
        absl::AbortedError(
            absl::StrCat("waiting for slower workers: ", reason)),
        replies);
  }
  FailWaits(
      [](const WaitingCall& call) {
        return call.reason == WaitReason::kBarrier;
      },
      absl::AbortedError(absl::StrCat("barrier: ", reason)), replies);
  workers_->Lose(rank);
}

void Namespace::FailRoundsWithout(uint32_t rank, absl::string_view reason,
                                  Replies& replies) {
  if (rounds_open_ == 0) return;
  keys_.ForEach([&](StoredKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!key.rounds || key.rounds->num_open() == 0) return;
    ReportDropped(key, key.rounds->FailWithout(rank), reason, replies);
  });
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
  const bool is_open = !key->rounds->OpensRound(round.step) &&
                       key->rounds->IdOf(round.step) == round.id;
  return is_open ? key->rounds.get() : nullptr;
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
  if (work.updates.empty() && work.folds.empty()) return;
  Submit([self = shared_from_this(), work = std::move(work)]() mutable {
    self->Run(std::move(work));
  });
}

bool Namespace::Submit(Executor::Task task) {
  MutexLock lock(&mutex_);
  if (no_waits_.ok()) environment_.executor->Submit(std::move(task));
  return no_waits_.ok();
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
