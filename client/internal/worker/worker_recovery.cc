#include "client/internal/worker/worker_recovery.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "client/client_tasks.h"
#include "client/compression/compressor.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/transfer/tensor_memory.h"
#include "client/internal/worker/lease_renewal.h"
#include "client/internal/worker/worker_errors.h"
#include "contract/reason.h"
#include "contract/request_fields.h"

namespace tensorkv {
namespace {

// Bounds how long a call waits for the worker to leave.
constexpr absl::Duration kLongestLeave = absl::Seconds(5);

// Says how often to look whether a former self is gone.
constexpr int kAttemptsPerLease = 10;

// Passes between attempts at what has failed twice.
constexpr absl::Duration kPause = absl::Milliseconds(100);

// Returns the highest step that the worker of that name has pushed to any
// server.
Step StepOfWorker(const NamespaceStatus& name_space, absl::string_view name) {
  for (const WorkerStatus& worker : name_space.workers()) {
    if (worker.name() == name) return worker.step();
  }
  return 0;
}

bool IsCancelled(const SharedCanceller& canceller) {
  return canceller != nullptr && canceller->is_cancelled();
}

// Returns the error of a verb that its caller has cancelled.
absl::Status Cancelled() {
  return absl::CancelledError(
      "cancelled by the caller; the call may have been made");
}

// Groups the entries by their keys: those of a key count as one contribution
// when they are pushed together.
std::vector<std::vector<PushEntry>> ByKey(
    const std::vector<PushEntry>& entries) {
  std::vector<std::vector<PushEntry>> keys;
  absl::flat_hash_map<absl::string_view, size_t> places;
  for (const PushEntry& entry : entries) {
    const auto [place, is_new] = places.try_emplace(entry.key, keys.size());
    if (is_new) keys.emplace_back();
    keys[place->second].push_back(entry);
  }
  return keys;
}

// Returns the contribution with some of its entries.
WorkerRecovery::Contribution PartOf(
    const WorkerRecovery::Contribution& contribution,
    std::vector<PushEntry> entries) {
  WorkerRecovery::Contribution part = contribution;
  part.entries =
      std::make_shared<const std::vector<PushEntry>>(std::move(entries));
  return part;
}

// Returns whether any entry is of rows, as all are then.
bool HasRows(const std::vector<PushEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const PushEntry& entry) { return bool{entry.rows}; });
}

// Makes one attempt for the rounds of one contribution.
Task<absl::Status> AwaitRound(Client waiter, const Worker& worker, Step step,
                              const std::vector<PushEntry>& entries,
                              CallThreads* threads) {
  absl::StatusOr<PullReply> reply;
  if (HasRows(entries)) {
    // There is no such call for rows; this one waits for later steps, too.
    PullRequest request;
    for (const PushEntry& entry : entries) {
      request.entries.emplace_back().key = entry.key;
    }
    Task<absl::StatusOr<PullReply>> pull =
        ClientTasks::Pull(waiter, request, threads);
    reply = co_await pull;
  } else {
    const PushOptions options = {
        .step = step, .is_encoded = true, .worker = worker};
    Task<absl::StatusOr<PullReply>> push_pull =
        ClientTasks::PushPull(waiter, entries, options, threads);
    reply = co_await push_pull;
  }
  co_return reply.status();
}

}  // namespace

Task<absl::StatusOr<JoinReply>> WorkerRecovery::Join(
    const Client& client, const WorkerOptions& options, uint64_t namespace_uid,
    const RetryEnvironment& environment, const Attempt& attempt) {
  const absl::Duration end =
      std::min(attempt.end, environment.now() + options.takeover_timeout);
  for (;;) {
    const Client joiner = client.NoLongerThan(attempt.end - environment.now());
    Task<absl::StatusOr<JoinReply>> join =
        ClientTasks::Join(joiner, options.name, options.lease, namespace_uid,
                          options.rank, attempt.threads);
    absl::StatusOr<JoinReply> reply = co_await join;
    const absl::Duration left = end - environment.now();
    if (!absl::IsAlreadyExists(reply.status()) ||
        left <= absl::ZeroDuration()) {
      co_return std::move(reply);
    }
    if (IsCancelled(attempt.canceller)) co_return Cancelled();
    const absl::Duration pause =
        std::min(options.lease / kAttemptsPerLease, left);
    co_await Pause(environment, pause, attempt.canceller, attempt.threads);
    // There is no time for another call, which would not say who has the name.
    if (environment.now() >= attempt.end) co_return std::move(reply);
  }
}

WorkerRecovery::WorkerRecovery(Client& client, const WorkerOptions& options,
                               RetryEnvironment environment,
                               const NamespaceStatus& name_space,
                               const JoinReply& joined)
    : client_(client),
      options_(options),
      environment_(std::move(environment)),
      is_repeatable_(name_space.config().mode() == v1::MODE_SYNC ||
                     name_space.config().mode() == v1::MODE_BOUNDED),
      has_rounds_(name_space.config().mode() == v1::MODE_SYNC),
      may_carry_(name_space.config().late() == v1::LATE_CARRY),
      namespace_uid_(name_space.uid()),
      copies_(client_.transfer().max_idle_bytes,
              client_.transfer().max_idle_time, environment_.run_after),
      open_(name_space.config().max_open_rounds()),
      joined_{WorkerOf(joined.worker()), joined.server_incarnation()},
      lease_(std::make_unique<LeaseRenewal>(client_, options.lease,
                                            options.on_membership_lost)) {
  open_.BeginWith(joined.next_step());
  open_.RepeatUpTo(StepOfWorker(name_space, options.name));
}

WorkerRecovery::~WorkerRecovery() {
  if (!CheckNotForked().ok()) {
    // The worker is the parent's, and so is the thread to wait for.
    [[maybe_unused]] const LeaseRenewal* const of_parent = lease_.release();
    return;
  }
  lease_.reset();
  if (!client_.worker()) return;
  // A worker that cannot say so loses its lease. One that could not say before
  // that it is done tries again.
  Leave(leave_cause_).IgnoreError();
}

absl::Status WorkerRecovery::Leave(LeaveCause cause) {
  leave_cause_ = cause;
  has_left_ = true;
  return client_.Leave(std::min(options_.lease, kLongestLeave), cause);
}

WorkerRecovery::Joined WorkerRecovery::joined() const {
  MutexLock lock(&joined_mutex_);
  return joined_;
}

WorkerState WorkerRecovery::state() const {
  if (has_left_) return WorkerState::kLeft;
  if (open_.IsForgetting()) return WorkerState::kGoneBack;
  if (recovery_mutex_.is_locked()) return WorkerState::kRepairing;
  return IsRepeating() ? WorkerState::kRepeating : WorkerState::kActive;
}

Task<absl::Status> WorkerRecovery::Rejoin(const Attempt& attempt) {
  const absl::Duration left = attempt.end - environment_.now();
  const absl::Status locked =
      co_await recovery_mutex_.Lock(left, attempt.canceller, attempt.threads);
  if (absl::IsCancelled(locked)) co_return Cancelled();
  if (!locked.ok()) {
    co_return absl::DeadlineExceededError(
        "another call that joins again has not ended in time");
  }
  has_left_ = false;
  leave_cause_ = LeaveCause::kLost;
  const absl::Status joined = co_await JoinAgain(attempt);
  recovery_mutex_.Unlock();
  co_return joined;
}

Task<absl::Status> WorkerRecovery::JoinAgain(const Attempt& attempt) {
  const absl::StatusOr<JoinReply> reply =
      co_await Join(client_, options_, namespace_uid_, environment_, attempt);
  CO_RETURN_IF_ERROR(reply);
  {
    MutexLock lock(&joined_mutex_);
    if (reply->server_incarnation() == joined_.incarnation) {
      open_.BeginWith(reply->next_step());
    } else {
      open_.GoBackTo(reply->next_step());
      last_dropped_step_ = 0;
    }
    joined_ = {WorkerOf(reply->worker()), reply->server_incarnation()};
  }
  lease_->SetMember();
  co_return absl::OkStatus();
}

absl::Status WorkerRecovery::membership() const { return lease_->membership(); }

absl::StatusOr<WorkerRecovery::Contribution> WorkerRecovery::Keep(
    uint64_t life, Step step, std::vector<PushEntry> entries, bool may_copy,
    const SharedCanceller& canceller, Residuals& left) {
  // Without a step the server would not know the contribution again, and nobody
  // here when its round has closed.
  if (is_repeatable_ && step == 0) {
    return absl::InvalidArgumentError(
        "push: expected a step of at least 1, got 0");
  }
  const Canceller::Use use(canceller);
  if (!use.may_begin()) return Cancelled();
  // Where pushes are not known again, each is a new one, of whatever step.
  ASSIGN_OR_RETURN(entries, client_.Encode(is_repeatable_ ? step : 0,
                                           std::move(entries), &left));
  if (may_copy) RETURN_IF_ERROR(Copy(entries));
  return open_.Add(life, step, std::move(entries));
}

absl::Status WorkerRecovery::Copy(std::vector<PushEntry>& entries) const {
  if (!options_.keeps_copies) return absl::OkStatus();
  return CopyTensors(entries, *copies_.pool());
}

absl::Status WorkerRecovery::TakeIn(const PushReply& reply,
                                    const Contribution& contribution) {
  RETURN_IF_ERROR(KeepCarried(reply, contribution));
  if (contribution.is_carried) {
    // The rest waits in its own round, which is open again.
    open_.SetWaiting(contribution);
  } else {
    open_.OnPushReply(reply, contribution);
  }
  return absl::OkStatus();
}

absl::Status WorkerRecovery::KeepCarried(const PushReply& reply,
                                         const Contribution& contribution) {
  OpenContributions::Carried carried;
  for (size_t i = 0; may_carry_ && i < reply.results.size(); ++i) {
    const PushResult& result = reply.results[i];
    const PushEntry& entry = (*contribution.entries)[i];
    if (result.version == 0 && result.step > contribution.step) {
      carried[result.step].push_back(entry);
    } else if (result.version != 0 && contribution.is_carried) {
      open_.RemoveKey(contribution, entry.key);
    }
  }
  for (auto& [step, entries] : carried) {
    if (options_.keeps_copies || contribution.is_carried) break;
    const absl::Status copied = CopyTensors(entries, *copies_.pool());
    if (copied.ok()) continue;
    open_.Remove(contribution);
    return copied;
  }
  open_.SetCarried(contribution, std::move(carried));
  return absl::OkStatus();
}

Task<absl::StatusOr<PushReply>> WorkerRecovery::PushOnce(
    Client client, const Worker& worker, Step step,
    std::vector<PushEntry> entries, CallThreads* threads) {
  const PushOptions options = {
      .step = step, .is_encoded = true, .worker = worker};
  return ClientTasks::Push(std::move(client), std::move(entries), options,
                           threads);
}

Task<absl::Status> WorkerRecovery::AwaitRepeated(
    const std::vector<std::string>& keys, const Attempt& attempt,
    const Client& waiter) {
  const absl::flat_hash_set<absl::string_view> read(keys.begin(), keys.end());
  // Before what is kept: that is for the server which has accepted it, or a
  // later one, which refuses it then.
  const Worker worker = joined().worker;
  const std::vector<Contribution> open = open_.InOrder();
  for (const Contribution& contribution : open) {
    std::vector<PushEntry> entries;
    for (const PushEntry& entry : *contribution.entries) {
      if (read.contains(entry.key)) entries.push_back(entry);
    }
    // No pull waits for what is carried.
    if (entries.empty() || contribution.is_carried) continue;
    Task<absl::Status> found =
        FindCarried(contribution, entries, worker,
                    WithDeadline(attempt, waiter), attempt.threads);
    absl::Status status = co_await found;
    CO_RETURN_IF_ERROR(status);
    std::vector<std::vector<PushEntry>> parts = {entries};
    for (size_t i = 0; i < parts.size(); ++i) {
      Task<absl::Status> awaited =
          AwaitRound(WithDeadline(attempt, waiter), worker, contribution.step,
                     parts[i], attempt.threads);
      status = co_await awaited;
      if (!IsObsolete(status)) CO_RETURN_IF_ERROR(status);
      // Some keys have no use for it; which ones shows one by one.
      if (IsObsolete(status) && i == 0) {
        for (std::vector<PushEntry>& each : ByKey(entries)) {
          parts.push_back(std::move(each));
        }
      }
    }
    for (const PushEntry& entry : entries) {
      open_.RemoveKey(contribution, entry.key);
    }
  }
  co_return absl::OkStatus();
}

Task<absl::Status> WorkerRecovery::FindCarried(
    const Contribution& contribution, const std::vector<PushEntry>& entries,
    const Worker& worker, Client pusher, CallThreads* threads) {
  if (!may_carry_) co_return absl::OkStatus();
  std::vector<std::vector<PushEntry>> keys = ByKey(entries);
  for (std::vector<PushEntry>& each : keys) {
    const Contribution part = PartOf(contribution, std::move(each));
    Task<absl::StatusOr<PushReply>> push =
        PushOnce(pusher, worker, part.step, *part.entries, threads);
    const absl::StatusOr<PushReply> reply = co_await push;
    if (IsObsolete(reply.status())) continue;
    CO_RETURN_IF_ERROR(reply);
    CO_RETURN_IF_ERROR(KeepCarried(*reply, part));
  }
  co_return absl::OkStatus();
}

WorkerRecovery::Attempt WorkerRecovery::Begin(
    SharedCanceller canceller, std::optional<absl::Duration> timeout,
    CallThreads* threads) const {
  return NextAttempt(
      {.end = environment_.now() + timeout.value_or(options_.step_timeout),
       .canceller = std::move(canceller),
       .threads = threads});
}

WorkerRecovery::Attempt WorkerRecovery::NextAttempt(
    const Attempt& attempt) const {
  return {.end = attempt.end,
          .recoveries = recoveries_begun_,
          .as = joined(),
          .canceller = attempt.canceller,
          .threads = attempt.threads};
}

Client WorkerRecovery::WithDeadline(const Attempt& attempt,
                                    const Client& client) const {
  return client.NoLongerThan(attempt.end - environment_.now());
}

Task<absl::Status> WorkerRecovery::Repair(const absl::Status& cause,
                                          const Attempt& attempt) {
  if (environment_.now() >= attempt.end) co_return cause;
  // A pull or a barrier is made again as it is.
  if (IsUncertain(cause) || ReasonOf(cause) == Reason::kWorkerLost) {
    co_return absl::OkStatus();
  }
  if (!open_.IsRepairable(cause)) co_return cause;
  co_return co_await Recover(cause, attempt);
}

Task<absl::Status> WorkerRecovery::RetryContribution(
    const Contribution& contribution, const absl::Status& cause,
    const Attempt& attempt) {
  absl::Status status = cause;
  if (MayBePushedAgain(cause) || MayMeanRestart(cause)) {
    status = co_await Recover(cause, attempt, &contribution);
  }
  if (!status.ok()) open_.Remove(contribution);
  co_return status;
}

bool WorkerRecovery::MayBePushedAgain(const absl::Status& status) const {
  return open_.IsRepairable(status) ||
         ReasonOf(status) == Reason::kStripeFailed ||
         (is_repeatable_ &&
          (IsUncertain(status) || ReasonOf(status) == Reason::kWorkerLost));
}

Task<absl::Status> WorkerRecovery::Recover(const absl::Status& cause,
                                           const Attempt& attempt,
                                           const Contribution* own) {
  const absl::Duration left = attempt.end - environment_.now();
  const absl::Status locked =
      co_await recovery_mutex_.Lock(left, attempt.canceller, attempt.threads);
  if (absl::IsCancelled(locked)) co_return Cancelled();
  if (!locked.ok()) co_return cause;
  absl::Status status = co_await RecoverAlone(cause, attempt, own);
  recovery_mutex_.Unlock();
  co_return std::move(status);
}

Task<absl::Status> WorkerRecovery::RecoverAlone(const absl::Status& cause,
                                                const Attempt& attempt,
                                                const Contribution* own) {
  // The open contributions were for a state that is gone.
  if (joined().incarnation != attempt.as.incarnation) {
    co_return absl::OkStatus();
  }
  // All that there is was pushed again since the attempt began.
  if (is_repeatable_ && last_that_succeeded_ > attempt.recoveries) {
    co_return absl::OkStatus();
  }
  const uint64_t number = ++recoveries_begun_;
  absl::Status status = co_await RecoverInTime(cause, attempt, own);
  if (status.ok()) last_that_succeeded_ = number;
  co_return std::move(status);
}

Task<absl::Status> WorkerRecovery::RecoverInTime(const absl::Status& cause,
                                                 const Attempt& attempt,
                                                 const Contribution* own) {
  bool is_member = !NeedsToJoin(cause);
  absl::Status status = cause;
  // A known restart stays known when an attempt ends otherwise.
  absl::Status known = cause;
  while (environment_.now() < attempt.end) {
    if (IsCancelled(attempt.canceller)) co_return Cancelled();
    if (MayMeanRestart(status)) known = status;
    status = co_await RecoverOnce(known, attempt, is_member, own);
    if (status.ok() || !MayRecoverAfter(status, is_member)) co_return status;
    is_member = is_member && !NeedsToJoin(status);
    co_await Pause(environment_, kPause, attempt.canceller, attempt.threads);
  }
  co_return status;
}

Task<absl::Status> WorkerRecovery::RecoverOnce(const absl::Status& cause,
                                               const Attempt& attempt,
                                               bool& is_member,
                                               const Contribution* own) {
  if (!is_member) {
    if (has_left_) co_return cause;
    const absl::Status joined = co_await JoinAgain(attempt);
    // The server that was restarted does not have this namespace.
    if (ReasonOf(cause) == Reason::kServerRestarted &&
        IsAnotherNamespace(joined)) {
      co_return cause;
    }
    CO_RETURN_IF_ERROR(joined);
    // Another thread has left meanwhile, and makes no more steps.
    if (has_left_) {
      Leave(leave_cause_).IgnoreError();  // then its lease ends
      co_return cause;
    }
  }
  is_member = true;
  if (joined().incarnation != attempt.as.incarnation) {
    co_return absl::OkStatus();
  }
  // The call may have been made, and would count twice.
  if (!is_repeatable_ && ReasonOf(cause) == Reason::kOutcomeUnknown) {
    co_return cause;
  }
  co_return co_await PushWhatMayBeMissing(attempt, own);
}

bool WorkerRecovery::MayRecoverAfter(const absl::Status& status,
                                     bool is_member) const {
  if (!is_member) return IsUncertain(status);
  // When all push again at once, memory may be short for a while.
  return MayBePushedAgain(status) || absl::IsResourceExhausted(status);
}

Task<absl::Status> WorkerRecovery::PushWhatMayBeMissing(
    const Attempt& attempt, const Contribution* own) {
  const Client client = client_.WithCanceller(attempt.canceller);
  // Calls of others are not made twice where the server would not notice.
  if (!is_repeatable_) {
    if (own == nullptr) co_return absl::OkStatus();
    Task<absl::Status> pushed =
        PushAgain(WithDeadline(attempt, client), *own, attempt.threads);
    co_return co_await pushed;
  }
  const std::vector<Contribution> open = open_.InOrder();
  for (const Contribution& contribution : open) {
    Task<absl::Status> pushed =
        PushAgain(WithDeadline(attempt, client), contribution, attempt.threads);
    const absl::Status status = co_await pushed;
    if (status.ok()) continue;
    // A contribution that is refused for good must not stand in the way of the
    // others.
    if (!MayRecoverAfter(status, /*is_member=*/true) &&
        !absl::IsCancelled(status)) {
      open_.Remove(contribution);
    }
    co_return status;
  }
  co_return absl::OkStatus();
}

Task<absl::Status> WorkerRecovery::PushAgain(Client client,
                                             const Contribution& contribution,
                                             CallThreads* threads) {
  const Worker worker = joined().worker;
  Task<absl::StatusOr<PushReply>> push = PushOnce(
      client, worker, contribution.step, *contribution.entries, threads);
  const absl::StatusOr<PushReply> reply = co_await push;
  // Some keys have no use for it; which ones shows one by one.
  if (IsObsolete(reply.status())) {
    Task<absl::Status> pushed = PushKeysAgain(client, contribution, threads);
    co_return co_await pushed;
  }
  CO_RETURN_IF_ERROR(reply);
  co_return TakeIn(*reply, contribution);
}

Task<absl::Status> WorkerRecovery::PushKeysAgain(
    Client client, const Contribution& contribution, CallThreads* threads) {
  std::vector<std::vector<PushEntry>> keys = ByKey(*contribution.entries);
  for (std::vector<PushEntry>& entries : keys) {
    const Contribution part = PartOf(contribution, std::move(entries));
    const Worker worker = joined().worker;
    Task<absl::StatusOr<PushReply>> push =
        PushOnce(client, worker, part.step, *part.entries, threads);
    const absl::StatusOr<PushReply> reply = co_await push;
    if (IsObsolete(reply.status())) {
      Forget(part, reply.status());
      continue;
    }
    CO_RETURN_IF_ERROR(reply);
    CO_RETURN_IF_ERROR(KeepCarried(*reply, part));
  }
  open_.SetWaiting(contribution);
  co_return absl::OkStatus();
}

void WorkerRecovery::Forget(const Contribution& part,
                            const absl::Status& status) {
  const bool is_closed = ReasonOf(status) == Reason::kStepClosed;
  // Another server may have a slice of the key whose round is open.
  if (is_closed && IsRepeating()) return;
  // A round that the server has forgotten may have taken what was carried.
  if (is_closed && !part.is_carried) {
    last_dropped_step_ = std::max<Step>(last_dropped_step_, part.step);
  }
  open_.RemoveKey(part, part.entries->front().key);
}

}  // namespace tensorkv
