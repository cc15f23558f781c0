#include "client/worker_client.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "client/cluster/share_outcomes.h"
#include "client/compression/compressor.h"
#include "client/internal/lease_renewal.h"
#include "client/internal/tensor_memory.h"
#include "client/internal/worker_errors.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Nobody waits longer for a worker to leave.
constexpr absl::Duration kLongestLeave = absl::Seconds(5);

// Says how often to look whether a former self is gone.
constexpr int kAttemptsPerLease = 10;

// Between attempts at what has failed twice.
constexpr absl::Duration kPause = absl::Milliseconds(100);

// Returns the highest step that the worker of that name has pushed to any
// server.
Step StepOfWorker(const NamespaceStatus& name_space, absl::string_view name) {
  for (const WorkerStatus& worker : name_space.workers) {
    if (worker.name == name) return worker.step;
  }
  return 0;
}

bool IsCancelled(const SharedCanceller& canceller) {
  return canceller != nullptr && canceller->is_cancelled();
}

absl::Status Cancelled() {
  return absl::CancelledError(
      "cancelled by the caller; the call may have been made");
}

// For a push that has failed with `cause`, and then arrived or not.
template <typename Request>
void KeepIfPushed(const absl::Status& cause, const absl::Status& retried,
                  Residuals& left) {
  if (retried.ok() || MayHavePushed<Request>(cause) ||
      MayHavePushed<Request>(retried)) {
    left.Keep();
  }
}

// Waits for a former self to lose its lease, until `latest` at most.
absl::StatusOr<JoinReply> JoinAs(const Client& client,
                                 const WorkerOptions& options,
                                 uint64_t namespace_uid,
                                 const RetryEnvironment& environment,
                                 absl::Duration latest,
                                 const SharedCanceller& canceller = nullptr) {
  const absl::Duration end =
      std::min(latest, environment.now() + options.takeover_timeout);
  for (;;) {
    absl::StatusOr<JoinReply> reply =
        client.NoLongerThan(latest - environment.now())
            .Join(options.name, options.lease, namespace_uid, options.rank);
    const absl::Duration left = end - environment.now();
    if (!absl::IsAlreadyExists(reply.status()) ||
        left <= absl::ZeroDuration()) {
      return reply;
    }
    if (IsCancelled(canceller)) return Cancelled();
    environment.sleep(std::min(options.lease / kAttemptsPerLease, left),
                      canceller);
    // There is no time for another call, which would not say who has the name.
    if (environment.now() >= latest) return reply;
  }
}

template <typename Entry>
std::vector<std::string> KeysOf(const std::vector<Entry>& entries) {
  std::vector<std::string> keys;
  keys.reserve(entries.size());
  for (const Entry& entry : entries) keys.push_back(entry.key);
  return keys;
}

// The entries of each key, which count as one contribution when they are pushed
// together.
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

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Join(
    const ClientOptions& client_options, const WorkerOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect(client_options));
  return Join(std::move(client), options);
}

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Join(
    std::unique_ptr<Client> client, const WorkerOptions& options,
    RetryEnvironment environment) {
  // Nobody goes by what was read of another incarnation before.
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   client->DescribeNamespace(client->name_space()));
  ASSIGN_OR_RETURN(const JoinReply reply,
                   JoinAs(*client, options, status.uid, environment,
                          /*latest=*/absl::InfiniteDuration()));
  return std::unique_ptr<WorkerClient>(new WorkerClient(
      std::move(client), options, std::move(environment), status, reply));
}

WorkerClient::WorkerClient(std::unique_ptr<Client> client,
                           const WorkerOptions& options,
                           RetryEnvironment environment,
                           const NamespaceStatus& name_space,
                           const JoinReply& joined)
    : options_(options),
      client_(std::move(client)),
      environment_(std::move(environment)),
      is_repeatable_(name_space.config.mode == Mode::kSync ||
                     name_space.config.mode == Mode::kBounded),
      has_rounds_(name_space.config.mode == Mode::kSync),
      namespace_uid_(name_space.uid),
      was_lost_(joined.lost_before),
      copies_(client_->transfer().max_idle_bytes,
              client_->transfer().max_idle_time, environment_.run_after),
      open_(name_space.config.max_open_rounds),
      joined_{joined.worker, joined.server_incarnation},
      lease_(std::make_unique<LeaseRenewal>(*client_, options.lease,
                                            options.on_membership_lost)) {
  open_.BeginWith(joined.next_step);
  open_.RepeatUpTo(StepOfWorker(name_space, options.name));
}

WorkerClient::~WorkerClient() {
  lease_.reset();
  if (!client_->worker()) return;
  // Whoever cannot say so is noticed to be gone. One that could not say that it
  // is done tries again.
  Leave(leave_cause_).IgnoreError();
}

absl::Status WorkerClient::Leave(LeaveCause cause) {
  leave_cause_ = cause;
  has_left_ = true;
  return client_->Leave(std::min(options_.lease, kLongestLeave), cause);
}

// Nobody, once client() has left on its own.
Worker WorkerClient::self() const {
  return client_->worker().value_or(Worker());
}

WorkerClient::Joined WorkerClient::joined() const {
  MutexLock lock(&joined_mutex_);
  return joined_;
}

absl::Status WorkerClient::Rejoin(SharedCanceller canceller,
                                  std::optional<absl::Duration> timeout) {
  const Attempt attempt = Begin(std::move(canceller), timeout);
  if (!recovery_.LockUnlessCancelled(attempt.canceller,
                                     attempt.end - environment_.now())) {
    if (IsCancelled(attempt.canceller)) return Cancelled();
    return absl::DeadlineExceededError(
        "another call that joins again has not ended in time");
  }
  const absl::Cleanup unlock = [this] { recovery_.unlock(); };
  has_left_ = false;
  leave_cause_ = LeaveCause::kLost;
  return JoinAgain(attempt);
}

absl::Status WorkerClient::JoinAgain(const Attempt& attempt) {
  ASSIGN_OR_RETURN(const JoinReply reply,
                   JoinAs(*client_, options_, namespace_uid_, environment_,
                          attempt.end, attempt.canceller));
  {
    MutexLock lock(&joined_mutex_);
    if (reply.server_incarnation == joined_.incarnation) {
      open_.BeginWith(reply.next_step);
    } else {
      open_.GoBackTo(reply.next_step);
    }
    joined_ = {reply.worker, reply.server_incarnation};
  }
  lease_->SetMember();
  return absl::OkStatus();
}

absl::Status WorkerClient::membership() const { return lease_->membership(); }

Step WorkerClient::step() {
  return open_.NextStep([this] { client_->ForgetResiduals(); });
}

absl::StatusOr<WorkerClient::Contribution> WorkerClient::Keep(
    Step step, std::vector<PushEntry> entries, const SharedCanceller& canceller,
    Residuals& left) {
  // Without one the server would not know the contribution again, and nobody
  // here when its round has closed.
  if (is_repeatable_ && step == 0) {
    return absl::InvalidArgumentError(
        "push: expected a step of at least 1, got 0");
  }
  const Canceller::Use use(canceller);
  if (!use.may_begin()) return Cancelled();
  // Where pushes are not known again, each is a new one, of whatever step.
  ASSIGN_OR_RETURN(entries, client_->Encode(is_repeatable_ ? step : 0,
                                            std::move(entries), &left));
  if (options_.keeps_copies) {
    RETURN_IF_ERROR(CopyTensors(entries, *copies_.pool()));
  }
  return open_.Add(step, std::move(entries));
}

absl::StatusOr<PullReply> WorkerClient::PushPull(Step step,
                                                 std::vector<PushEntry> entries,
                                                 const ReadOptions& options) {
  Residuals left(/*takes_casts=*/false);
  ASSIGN_OR_RETURN(const Contribution contribution,
                   Keep(step, std::move(entries), options.canceller, left));
  const Attempt attempt = Begin(options.canceller, options.timeout);
  const Client reader = ReadingClient(options);
  if (open_.IsForgotten(contribution)) {
    return PullRetrying(KeysOf(*contribution.entries), options.dtype, attempt,
                        reader);
  }
  absl::StatusOr<PullReply> reply =
      WithDeadline(attempt, reader)
          .PushPull(*contribution.entries, {.step = step,
                                            .is_encoded = true,
                                            .worker = attempt.as.worker,
                                            .reply_dtype = options.dtype});
  if (reply.ok()) {
    left.Keep();
    open_.RemoveUpTo(contribution);
    return reply;
  }
  const absl::Status retried =
      RetryContribution(contribution, reply.status(), attempt);
  KeepIfPushed<PushPullRequest>(reply.status(), retried, left);
  RETURN_IF_ERROR(retried);
  return PullRetrying(KeysOf(*contribution.entries), options.dtype, attempt,
                      reader);
}

absl::StatusOr<Value> WorkerClient::PushPull(Step step, absl::string_view key,
                                             Tensor contribution) {
  std::vector<PushEntry> entries = {
      {.key = std::string(key), .tensor = std::move(contribution)}};
  ASSIGN_OR_RETURN(PullReply reply, PushPull(step, std::move(entries)));
  return std::move(reply.values.front());
}

absl::Status WorkerClient::Push(Step step, std::vector<PushEntry> entries,
                                SharedCanceller canceller,
                                std::optional<absl::Duration> timeout) {
  Residuals left(/*takes_casts=*/false);
  ASSIGN_OR_RETURN(const Contribution contribution,
                   Keep(step, std::move(entries), canceller, left));
  const Attempt attempt = Begin(std::move(canceller), timeout);
  if (open_.IsForgotten(contribution)) return absl::OkStatus();
  Client client =
      WithDeadline(attempt, client_->WithCanceller(attempt.canceller));
  const absl::StatusOr<PushReply> reply =
      PushOnce(client, attempt.as.worker, step, *contribution.entries);
  if (!reply.ok()) {
    absl::Status retried =
        RetryContribution(contribution, reply.status(), attempt);
    KeepIfPushed<PushRequest>(reply.status(), retried, left);
    return retried;
  }
  left.Keep();
  open_.OnPushReply(*reply, contribution);
  return absl::OkStatus();
}

absl::Status WorkerClient::PushRows(Step step, std::vector<PushEntry> entries,
                                    SharedCanceller canceller,
                                    std::optional<absl::Duration> timeout) {
  return Push(step, std::move(entries), std::move(canceller), timeout);
}

absl::StatusOr<PushReply> WorkerClient::PushOnce(
    Client& client, const Worker& worker, Step step,
    std::vector<PushEntry> entries) {
  const bool has_rows =
      std::any_of(entries.begin(), entries.end(),
                  [](const PushEntry& entry) { return bool{entry.rows}; });
  const PushOptions options = {
      .step = step, .is_encoded = true, .worker = worker};
  return has_rows ? client.PushRows(std::move(entries), options)
                  : client.Push(std::move(entries), options);
}

absl::StatusOr<PullReply> WorkerClient::Pull(
    const std::vector<std::string>& keys, const ReadOptions& options) {
  return PullRetrying(keys, options.dtype,
                      Begin(options.canceller, options.timeout),
                      ReadingClient(options));
}

absl::StatusOr<PullReply> WorkerClient::PullRows(
    std::vector<PullEntry> entries, SharedCanceller canceller,
    std::optional<absl::Duration> timeout) {
  const Client reader = client_->WithCanceller(canceller);
  return PullRetrying(KeysOf(entries), Begin(std::move(canceller), timeout),
                      reader, [&](Client& client) {
                        PullRowsRequest request;
                        request.entries = entries;
                        return client.PullRows(std::move(request));
                      });
}

absl::StatusOr<PullReply> WorkerClient::PullRetrying(
    const std::vector<std::string>& keys, DType dtype, Attempt attempt,
    const Client& reader) {
  const auto read = [&](Client& client) -> absl::StatusOr<PullReply> {
    if (IsRepeating()) {
      RETURN_IF_ERROR(AwaitRepeated(keys, attempt, client.Into({})));
      return WithDeadline(attempt, client).PullLatest(keys, dtype);
    }
    PullRequest request = {.dtype = dtype};
    for (const std::string& key : keys) request.entries.push_back({key});
    return client.Pull(std::move(request));
  };
  return PullRetrying(keys, attempt, reader, read);
}

absl::Status WorkerClient::AwaitRepeated(const std::vector<std::string>& keys,
                                         const Attempt& attempt,
                                         const Client& waiter) {
  const absl::flat_hash_set<absl::string_view> read(keys.begin(), keys.end());
  // Before what is kept: that is for the server which has accepted it, or a
  // later one, which refuses it then.
  const Worker worker = joined().worker;
  for (const Contribution& contribution : open_.InOrder()) {
    std::vector<PushEntry> entries;
    for (const PushEntry& entry : *contribution.entries) {
      if (read.contains(entry.key)) entries.push_back(entry);
    }
    if (entries.empty()) continue;
    absl::Status status = AwaitRound(worker, contribution.step, entries,
                                     WithDeadline(attempt, waiter));
    if (IsObsolete(status)) {
      for (const std::vector<PushEntry>& each : ByKey(entries)) {
        status = AwaitRound(worker, contribution.step, each,
                            WithDeadline(attempt, waiter));
        if (!IsObsolete(status)) RETURN_IF_ERROR(status);
      }
    } else {
      RETURN_IF_ERROR(status);
    }
    for (const PushEntry& entry : entries) {
      open_.RemoveKey(contribution, entry.key);
    }
  }
  return absl::OkStatus();
}

absl::Status WorkerClient::AwaitRound(const Worker& worker, Step step,
                                      const std::vector<PushEntry>& entries,
                                      Client waiter) {
  const bool has_rows =
      std::any_of(entries.begin(), entries.end(),
                  [](const PushEntry& entry) { return bool{entry.rows}; });
  // There is no such call for rows; this one waits for later steps, too.
  if (has_rows) return waiter.Pull(KeysOf(entries)).status();
  return waiter
      .PushPull(entries, {.step = step, .is_encoded = true, .worker = worker})
      .status();
}

Client WorkerClient::ReadingClient(const ReadOptions& options) const {
  return client_->Into(options.into).WithCanceller(options.canceller);
}

template <typename Reader>
absl::StatusOr<PullReply> WorkerClient::PullRetrying(
    const std::vector<std::string>& keys, Attempt attempt, const Client& reader,
    Reader read) {
  for (;;) {
    attempt = NextAttempt(attempt);
    const uint64_t waiting = open_.WaitingMark();
    Client client = WithDeadline(attempt, reader);
    absl::StatusOr<PullReply> reply = read(client);
    if (reply.ok()) {
      open_.RemoveWaiting(keys, waiting);
      return reply;
    }
    RETURN_IF_ERROR(Repair(reply.status(), attempt));
  }
}

absl::Status WorkerClient::Barrier(absl::string_view barrier,
                                   SharedCanceller canceller,
                                   std::optional<absl::Duration> timeout) {
  const Client client = client_->WithCanceller(canceller);
  for (Attempt attempt = Begin(std::move(canceller), timeout);;
       attempt = NextAttempt(attempt)) {
    const absl::Status status = WithDeadline(attempt, client).Barrier(barrier);
    if (status.ok()) return status;
    RETURN_IF_ERROR(Repair(status, attempt));
  }
}

WorkerClient::Attempt WorkerClient::Begin(
    SharedCanceller canceller, std::optional<absl::Duration> timeout) const {
  return NextAttempt(
      {.end = environment_.now() + timeout.value_or(options_.step_timeout),
       .canceller = std::move(canceller)});
}

WorkerClient::Attempt WorkerClient::NextAttempt(const Attempt& attempt) const {
  return {.end = attempt.end,
          .recoveries = recoveries_begun_,
          .as = joined(),
          .canceller = attempt.canceller};
}

Client WorkerClient::WithDeadline(const Attempt& attempt,
                                  const Client& client) const {
  return client.NoLongerThan(attempt.end - environment_.now());
}

absl::Status WorkerClient::Repair(const absl::Status& cause,
                                  const Attempt& attempt) {
  if (environment_.now() >= attempt.end) return cause;
  // A pull or a barrier is made again as it is.
  if (IsUncertain(cause) || ReasonOf(cause) == Reason::kWorkerLost) {
    return absl::OkStatus();
  }
  if (!open_.IsRepairable(cause)) return cause;
  return Recover(cause, attempt);
}

absl::Status WorkerClient::RetryContribution(const Contribution& contribution,
                                             const absl::Status& cause,
                                             const Attempt& attempt) {
  absl::Status status = cause;
  if (MayBePushedAgain(cause) || MayMeanRestart(cause)) {
    status = Recover(cause, attempt, &contribution);
  }
  if (!status.ok()) open_.Remove(contribution);
  return status;
}

bool WorkerClient::MayBePushedAgain(const absl::Status& status) const {
  return open_.IsRepairable(status) ||
         ReasonOf(status) == Reason::kStripeFailed ||
         (is_repeatable_ &&
          (IsUncertain(status) || ReasonOf(status) == Reason::kWorkerLost));
}

absl::Status WorkerClient::Recover(const absl::Status& cause,
                                   const Attempt& attempt,
                                   const Contribution* own) {
  if (!recovery_.LockUnlessCancelled(attempt.canceller,
                                     attempt.end - environment_.now())) {
    return IsCancelled(attempt.canceller) ? Cancelled() : cause;
  }
  const absl::Cleanup unlock = [this] { recovery_.unlock(); };
  // The open contributions were for a state that is gone.
  if (joined().incarnation != attempt.as.incarnation) return absl::OkStatus();
  // All that there is was pushed again since the attempt began.
  if (is_repeatable_ && last_that_succeeded_ > attempt.recoveries) {
    return absl::OkStatus();
  }
  const uint64_t number = ++recoveries_begun_;
  absl::Status status = RecoverInTime(cause, attempt, own);
  if (status.ok()) last_that_succeeded_ = number;
  return status;
}

absl::Status WorkerClient::RecoverInTime(const absl::Status& cause,
                                         const Attempt& attempt,
                                         const Contribution* own) {
  bool is_member = !NeedsToJoin(cause);
  absl::Status status = cause;
  // A known restart stays known when an attempt ends otherwise.
  absl::Status known = cause;
  while (environment_.now() < attempt.end) {
    if (IsCancelled(attempt.canceller)) return Cancelled();
    if (MayMeanRestart(status)) known = status;
    status = RecoverOnce(known, attempt, is_member, own);
    if (status.ok() || !MayRecoverAfter(status, is_member)) return status;
    is_member = is_member && !NeedsToJoin(status);
    environment_.sleep(kPause, attempt.canceller);
  }
  return status;
}

absl::Status WorkerClient::RecoverOnce(const absl::Status& cause,
                                       const Attempt& attempt, bool& is_member,
                                       const Contribution* own) {
  if (!is_member) {
    if (has_left_) return cause;
    const absl::Status joined = JoinAgain(attempt);
    // The server that was restarted does not have this namespace.
    if (ReasonOf(cause) == Reason::kServerRestarted &&
        IsAnotherNamespace(joined)) {
      return cause;
    }
    RETURN_IF_ERROR(joined);
    // Another thread has left meanwhile, and makes no more steps.
    if (has_left_) {
      Leave(leave_cause_).IgnoreError();  // then its lease ends
      return cause;
    }
  }
  is_member = true;
  if (joined().incarnation != attempt.as.incarnation) return absl::OkStatus();
  // The call may have been made, and would count twice.
  if (!is_repeatable_ && ReasonOf(cause) == Reason::kOutcomeUnknown) {
    return cause;
  }
  return PushWhatMayBeMissing(attempt, own);
}

bool WorkerClient::MayRecoverAfter(const absl::Status& status,
                                   bool is_member) const {
  if (!is_member) return IsUncertain(status);
  // When all push again at once, memory may be short for a while.
  return MayBePushedAgain(status) || absl::IsResourceExhausted(status);
}

absl::Status WorkerClient::PushWhatMayBeMissing(const Attempt& attempt,
                                                const Contribution* own) {
  const Client client = client_->WithCanceller(attempt.canceller);
  // Nobody else's call is made twice where the server would not notice.
  if (!is_repeatable_) {
    return own != nullptr ? PushAgain(WithDeadline(attempt, client), *own)
                          : absl::OkStatus();
  }
  for (const Contribution& contribution : open_.InOrder()) {
    const absl::Status status =
        PushAgain(WithDeadline(attempt, client), contribution);
    if (status.ok()) continue;
    // A contribution that is refused for good must not stand in the way of the
    // others.
    if (!MayRecoverAfter(status, /*is_member=*/true) &&
        !absl::IsCancelled(status)) {
      open_.Remove(contribution);
    }
    return status;
  }
  return absl::OkStatus();
}

absl::Status WorkerClient::PushAgain(Client client,
                                     const Contribution& contribution) {
  const absl::StatusOr<PushReply> reply = PushOnce(
      client, joined().worker, contribution.step, *contribution.entries);
  // Some keys have no use for it; which ones shows one by one.
  if (IsObsolete(reply.status())) return PushKeysAgain(client, contribution);
  RETURN_IF_ERROR(reply.status());
  open_.OnPushReply(*reply, contribution);
  return absl::OkStatus();
}

absl::Status WorkerClient::PushKeysAgain(Client& client,
                                         const Contribution& contribution) {
  for (std::vector<PushEntry>& entries : ByKey(*contribution.entries)) {
    const std::string key = entries.front().key;
    const absl::Status status =
        PushOnce(client, joined().worker, contribution.step, std::move(entries))
            .status();
    if (IsObsolete(status)) {
      // Another server may have a slice of the key whose round is open.
      const bool is_awaited =
          IsRepeating() && ReasonOf(status) == Reason::kStepClosed;
      if (!is_awaited) open_.RemoveKey(contribution, key);
    } else {
      RETURN_IF_ERROR(status);
    }
  }
  open_.SetWaiting(contribution);
  return absl::OkStatus();
}

}  // namespace tensorkv
