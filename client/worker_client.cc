#include "client/worker_client.h"

#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/client_tasks.h"
#include "client/cluster/share_outcomes.h"
#include "client/compression/compressor.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/call_deadline.h"
#include "client/internal/calls/task.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/worker/push_order.h"
#include "client/internal/worker/worker_recovery.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

using Attempt = WorkerRecovery::Attempt;
using Contribution = WorkerRecovery::Contribution;

// Keeps what encoding has left out of a push that has failed with `cause`, and
// then arrived or not, if it may have arrived.
template <typename Request>
void KeepIfPushed(const absl::Status& cause, const absl::Status& retried,
                  Residuals& left) {
  if (retried.ok() || MayHavePushed<Request>(cause) ||
      MayHavePushed<Request>(retried)) {
    left.Keep();
  }
}

template <typename Entry>
std::vector<std::string> KeysOf(const std::vector<Entry>& entries) {
  std::vector<std::string> keys;
  keys.reserve(entries.size());
  for (const Entry& entry : entries) keys.push_back(entry.key);
  return keys;
}

ReadOptions Reading(const VerbOptions& options) {
  return {.canceller = options.canceller, .timeout = options.timeout};
}

PullRequest RequestOf(const std::vector<std::string>& keys, DType dtype) {
  PullRequest request = {.dtype = dtype};
  request.entries.reserve(keys.size());
  for (const std::string& key : keys) request.entries.push_back({key});
  return request;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Join(
    const ClientOptions& client_options, const WorkerOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect(client_options));
  return Join(std::move(client), options);
}

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Join(
    std::unique_ptr<Client> client, const WorkerOptions& options) {
  return Join(std::move(client), options, SystemRetryEnvironment());
}

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Join(
    std::unique_ptr<Client> client, const WorkerOptions& options,
    const RetryEnvironment& environment) {
  // Nobody goes by what was read of another incarnation before.
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   client->DescribeNamespace(client->name_space()));
  ASSIGN_OR_RETURN(
      const JoinReply reply,
      WorkerRecovery::Join(*client, options, status.uid(), environment,
                           {.end = absl::InfiniteDuration()})
          .Run());
  std::unique_ptr<WorkerRecovery> recovery;
  try {
    recovery = std::make_unique<WorkerRecovery>(*client, options, environment,
                                                status, reply);
  } catch (const std::system_error&) {
    client->Leave(options.lease, LeaveCause::kLost).IgnoreError();
    return WithReason(absl::ResourceExhaustedError(
                          "the system has no thread to renew the lease"),
                      Reason::kLimitReached, {{"limit", "threads"}});
  }
  return std::unique_ptr<WorkerClient>(new WorkerClient(
      std::move(client), reply.lost_before(), std::move(recovery)));
}

WorkerClient::WorkerClient(std::unique_ptr<Client> client, bool was_lost,
                           std::unique_ptr<WorkerRecovery> recovery)
    : client_(std::move(client)),
      was_lost_(was_lost),
      recovery_(std::move(recovery)) {}

WorkerClient::~WorkerClient() = default;

uint32_t WorkerClient::rank() const {
  return client_->worker().value_or(Worker()).rank;
}

uint64_t WorkerClient::epoch() const {
  return client_->worker().value_or(Worker()).epoch;
}

absl::Status WorkerClient::Leave(LeaveCause cause) {
  return recovery_->Leave(cause);
}

absl::Status WorkerClient::membership() const {
  return recovery_->membership();
}

absl::Status WorkerClient::Rejoin(const VerbOptions& options) {
  const Attempt attempt = recovery_->Begin(options.canceller, options.timeout);
  return recovery_->Rejoin(attempt).Run();
}

Step WorkerClient::last_dropped_step() const {
  return recovery_->last_dropped_step();
}

Step WorkerClient::step() const { return recovery_->open().NextStep(); }

Step WorkerClient::Resume() {
  return recovery_->open().Resume([this] { client_->ForgetResiduals(); });
}

WorkerState WorkerClient::state() const { return recovery_->state(); }

// One call of a verb, while its task runs.
struct WorkerClient::Call {
  template <typename Reply>
  using ReplyTask = Task<absl::StatusOr<Reply>>;
  using Read = absl::FunctionRef<ReplyTask<PullReply>(Client)>;

  // A push before its task begins: its place, and the life of the state that
  // it is for.
  struct Begun {
    PushOrder::Place place;
    uint64_t life;
  };
  // Begins a push; copies the tensors where `may_copy`, and the options say so.
  static absl::StatusOr<Begun> Begin(WorkerClient& worker,
                                     std::vector<PushEntry>& entries,
                                     bool may_copy);

  // The verbs.
  static ReplyTask<PushReply> MakePush(WorkerClient& worker, Begun begun,
                                       Step step,
                                       std::vector<PushEntry> entries,
                                       VerbOptions options,
                                       CallThreads* threads);
  static ReplyTask<PullReply> MakePushPull(WorkerClient& worker, Begun begun,
                                           Step step,
                                           std::vector<PushEntry> entries,
                                           ReadOptions options,
                                           CallThreads* threads);
  static ReplyTask<PullReply> MakePull(WorkerClient& worker,
                                       PullRequest request, ReadOptions options,
                                       CallThreads* threads);
  static ReplyTask<PullReply> MakePullRows(WorkerClient& worker,
                                           PullRowsRequest request,
                                           VerbOptions options,
                                           CallThreads* threads);

  Call(WorkerClient& worker, const ReadOptions& options, CallThreads* threads)
      : client(*worker.client_),
        recovery(*worker.recovery_),
        reader(client.Into(options.into).WithCanceller(options.canceller)),
        attempt(recovery.Begin(options.canceller, options.timeout, threads)),
        threads(threads) {}

  // Returns `of`, whose calls end with the verb.
  Client Bounded(const Client& of) const {
    return recovery.WithDeadline(attempt, of);
  }

  // Waits for the turn of a push, and keeps it.
  ReplyTask<Contribution> Keep(const Begun& begun, Step step,
                               std::vector<PushEntry>& entries,
                               Residuals& left);
  // Pushes what is kept. Errors: also FailedPrecondition (SERVER_RESTARTED).
  ReplyTask<PushReply> Push(const Contribution& contribution, Residuals& left);
  // Pushes what is kept, and reads what that makes, in one call. The reply is
  // not OK, and the status is, where it was pushed and is yet to be read.
  ReplyTask<PullReply> PushPull(const Contribution& contribution, DType dtype,
                                Residuals& left, absl::Status& pushed);
  // Makes sure that the server has what an attempt has failed to push. Errors:
  // those of Push.
  template <typename Request>
  Task<absl::Status> PushAgain(const Contribution& contribution,
                               const absl::Status& cause, Residuals& left);
  // Reads what `read` begins to read, of these keys, until an attempt succeeds
  // or none may.
  ReplyTask<PullReply> ReadInTime(const std::vector<std::string>& keys,
                                  Read read);
  // Makes one attempt to pull.
  ReplyTask<PullReply> PullOnce(Client from,
                                const std::vector<std::string>& keys,
                                const PullRequest& request);

  Client& client;
  WorkerRecovery& recovery;
  const Client reader;
  Attempt attempt;
  CallThreads* const threads;
};

absl::StatusOr<WorkerClient::Call::Begun> WorkerClient::Call::Begin(
    WorkerClient& worker, std::vector<PushEntry>& entries, bool may_copy) {
  RETURN_IF_ERROR(CheckNotForked());
  WorkerRecovery& recovery = *worker.recovery_;
  if (may_copy) RETURN_IF_ERROR(recovery.Copy(entries));
  const uint64_t life = recovery.open().life();
  return Begun{recovery.order().Enter(entries), life};
}

Task<absl::StatusOr<Contribution>> WorkerClient::Call::Keep(
    const Begun& begun, Step step, std::vector<PushEntry>& entries,
    Residuals& left) {
  const absl::Duration timeout = recovery.TimeLeft(attempt);
  const absl::Status came =
      co_await begun.place.AwaitTurn(timeout, attempt.canceller, threads);
  if (absl::IsDeadlineExceeded(came)) {
    co_return absl::DeadlineExceededError(
        absl::StrCat("push of step ", step,
                     ": an earlier push of one of its keys has not ended"));
  }
  CO_RETURN_IF_ERROR(came);
  if (threads != nullptr && ClientTasks::Encodes(client)) {
    const CallDeadline deadline(recovery.TimeLeft(attempt), attempt.canceller);
    ThreadOf thread(threads, deadline);
    const absl::Status came_on = co_await thread;
    CO_RETURN_IF_ERROR(came_on);
  }
  // Who does not wait may write the elements by now, and had them copied.
  const bool may_copy = threads == nullptr;
  absl::StatusOr<Contribution> kept = recovery.Keep(
      begun.life, step, std::move(entries), may_copy, attempt.canceller, left);
  // A repair that begins from here on pushes this again, too.
  attempt = recovery.NextAttempt(attempt);
  co_return std::move(kept);
}

Task<absl::StatusOr<PushReply>> WorkerClient::Call::Push(
    const Contribution& contribution, Residuals& left) {
  CO_RETURN_IF_ERROR(recovery.open().CheckKept(contribution));
  const Client pusher = Bounded(client.WithCanceller(attempt.canceller));
  ReplyTask<PushReply> push =
      WorkerRecovery::PushOnce(pusher, attempt.as.worker, contribution.step,
                               *contribution.entries, threads);
  absl::StatusOr<PushReply> reply = co_await push;
  if (reply.ok()) {
    left.Keep();
    CO_RETURN_IF_ERROR(recovery.TakeIn(*reply, contribution));
    CO_RETURN_IF_ERROR(recovery.open().CheckKept(contribution));
    co_return std::move(reply);
  }
  const absl::Status again =
      co_await PushAgain<PushRequest>(contribution, reply.status(), left);
  CO_RETURN_IF_ERROR(again);
  PushReply made;
  made.results.resize(contribution.entries->size());
  for (PushResult& result : made.results) result.step = contribution.step;
  co_return std::move(made);
}

Task<absl::StatusOr<PullReply>> WorkerClient::Call::PushPull(
    const Contribution& contribution, DType dtype, Residuals& left,
    absl::Status& pushed) {
  pushed = recovery.open().CheckKept(contribution);
  CO_RETURN_IF_ERROR(pushed);
  const PushOptions options = {.step = contribution.step,
                               .is_encoded = true,
                               .worker = attempt.as.worker,
                               .reply_dtype = dtype};
  ReplyTask<PullReply> push_pull = ClientTasks::PushPull(
      Bounded(reader), *contribution.entries, options, threads);
  absl::StatusOr<PullReply> reply = co_await push_pull;
  if (reply.ok()) {
    left.Keep();
    recovery.open().RemoveUpTo(contribution);
  } else {
    pushed =
        co_await PushAgain<PushPullRequest>(contribution, reply.status(), left);
  }
  co_return std::move(reply);
}

template <typename Request>
Task<absl::Status> WorkerClient::Call::PushAgain(
    const Contribution& contribution, const absl::Status& cause,
    Residuals& left) {
  const absl::Status retried =
      co_await recovery.RetryContribution(contribution, cause, attempt);
  KeepIfPushed<Request>(cause, retried, left);
  CO_RETURN_IF_ERROR(retried);
  co_return recovery.open().CheckKept(contribution);
}

Task<absl::StatusOr<PullReply>> WorkerClient::Call::ReadInTime(
    const std::vector<std::string>& keys, Read read) {
  for (;;) {
    attempt = recovery.NextAttempt(attempt);
    const uint64_t waiting = recovery.open().WaitingMark();
    ReplyTask<PullReply> pull = read(Bounded(reader));
    absl::StatusOr<PullReply> reply = co_await pull;
    if (reply.ok()) {
      recovery.open().RemoveWaiting(keys, waiting);
      co_return std::move(reply);
    }
    const absl::Status repaired =
        co_await recovery.Repair(reply.status(), attempt);
    CO_RETURN_IF_ERROR(repaired);
  }
}

Task<absl::StatusOr<PullReply>> WorkerClient::Call::PullOnce(
    Client from, const std::vector<std::string>& keys,
    const PullRequest& request) {
  const bool is_repeating = recovery.IsRepeating();
  if (is_repeating) {
    const Client waiter = from.Into({});
    const absl::Status awaited =
        co_await recovery.AwaitRepeated(keys, attempt, waiter);
    CO_RETURN_IF_ERROR(awaited);
  }
  ReplyTask<PullReply> pull =
      is_repeating ? ClientTasks::PullUnsigned(Bounded(from), request, threads)
                   : ClientTasks::Pull(std::move(from), request, threads);
  co_return co_await pull;
}

Task<absl::StatusOr<PushReply>> WorkerClient::Call::MakePush(
    WorkerClient& worker, Begun begun, Step step,
    std::vector<PushEntry> entries, VerbOptions options, CallThreads* threads) {
  Call call(worker, Reading(options), threads);
  Residuals left(/*takes_casts=*/false);
  const absl::StatusOr<Contribution> contribution =
      co_await call.Keep(begun, step, entries, left);
  CO_RETURN_IF_ERROR(contribution);
  co_return co_await call.Push(*contribution, left);
}

Task<absl::StatusOr<PullReply>> WorkerClient::Call::MakePushPull(
    WorkerClient& worker, Begun begun, Step step,
    std::vector<PushEntry> entries, ReadOptions options, CallThreads* threads) {
  Call call(worker, options, threads);
  Residuals left(/*takes_casts=*/false);
  const absl::StatusOr<Contribution> contribution =
      co_await call.Keep(begun, step, entries, left);
  CO_RETURN_IF_ERROR(contribution);
  WorkerRecovery& recovery = call.recovery;
  // The reply to a PushPull would not say what is carried, and comes too late
  // for those who push the same keys next.
  if (recovery.may_carry() || recovery.order().has_queued()) {
    const absl::StatusOr<PushReply> pushed =
        co_await call.Push(*contribution, left);
    CO_RETURN_IF_ERROR(pushed);
  } else {
    absl::Status pushed;
    absl::StatusOr<PullReply> reply =
        co_await call.PushPull(*contribution, options.dtype, left, pushed);
    CO_RETURN_IF_ERROR(pushed);
    if (reply.ok()) co_return std::move(reply);
  }
  begun.place.Leave();
  const std::vector<std::string> keys = KeysOf(*contribution->entries);
  const PullRequest request = RequestOf(keys, options.dtype);
  const auto read = [&](Client from) {
    return call.PullOnce(std::move(from), keys, request);
  };
  absl::StatusOr<PullReply> reply = co_await call.ReadInTime(keys, read);
  // The server may have gone back meanwhile, and lost what was pushed.
  if (reply.ok()) CO_RETURN_IF_ERROR(recovery.open().CheckKept(*contribution));
  co_return std::move(reply);
}

Task<absl::StatusOr<PullReply>> WorkerClient::Call::MakePull(
    WorkerClient& worker, PullRequest request, ReadOptions options,
    CallThreads* threads) {
  Call call(worker, options, threads);
  const std::vector<std::string> keys = KeysOf(request.entries);
  const auto read = [&](Client from) {
    return call.PullOnce(std::move(from), keys, request);
  };
  co_return co_await call.ReadInTime(keys, read);
}

Task<absl::StatusOr<PullReply>> WorkerClient::Call::MakePullRows(
    WorkerClient& worker, PullRowsRequest request, VerbOptions options,
    CallThreads* threads) {
  Call call(worker, Reading(options), threads);
  const std::vector<std::string> keys = KeysOf(request.entries);
  const auto read = [&](Client from) {
    return ClientTasks::PullRows(std::move(from), request, threads);
  };
  co_return co_await call.ReadInTime(keys, read);
}

absl::StatusOr<PullReply> WorkerClient::PushPull(Step step,
                                                 std::vector<PushEntry> entries,
                                                 const ReadOptions& options) {
  ASSIGN_OR_RETURN(Call::Begun begun,
                   Call::Begin(*this, entries, /*may_copy=*/false));
  return Call::MakePushPull(*this, std::move(begun), step, std::move(entries),
                            options, /*threads=*/nullptr)
      .Run();
}

absl::StatusOr<Value> WorkerClient::PushPull(Step step, absl::string_view key,
                                             Tensor contribution) {
  std::vector<PushEntry> entries = {
      {.key = std::string(key), .tensor = std::move(contribution)}};
  ASSIGN_OR_RETURN(PullReply reply, PushPull(step, std::move(entries)));
  return std::move(reply.values.front());
}

absl::Status WorkerClient::Push(Step step, std::vector<PushEntry> entries,
                                const VerbOptions& options) {
  ASSIGN_OR_RETURN(Call::Begun begun,
                   Call::Begin(*this, entries, /*may_copy=*/false));
  return Call::MakePush(*this, std::move(begun), step, std::move(entries),
                        options, /*threads=*/nullptr)
      .Run()
      .status();
}

absl::StatusOr<PullReply> WorkerClient::Pull(
    const std::vector<std::string>& keys, const ReadOptions& options) {
  return Call::MakePull(*this, RequestOf(keys, options.dtype), options,
                        /*threads=*/nullptr)
      .Run();
}

absl::StatusOr<PullReply> WorkerClient::PullRows(std::vector<PullEntry> entries,
                                                 const VerbOptions& options) {
  PullRowsRequest request;
  request.entries = std::move(entries);
  return Call::MakePullRows(*this, std::move(request), options,
                            /*threads=*/nullptr)
      .Run();
}

void WorkerClient::StartPush(Step step, std::vector<PushEntry> entries,
                             const VerbOptions& options, CallThreads& threads,
                             Client::Done<PushReply> done) {
  absl::StatusOr<Call::Begun> begun =
      Call::Begin(*this, entries, /*may_copy=*/true);
  if (!begun.ok()) return std::move(done)(begun.status());
  StartTask(Call::MakePush(*this, *std::move(begun), step, std::move(entries),
                           options, &threads),
            std::move(done));
}

void WorkerClient::StartPushPull(Step step, std::vector<PushEntry> entries,
                                 const ReadOptions& options,
                                 CallThreads& threads,
                                 Client::Done<PullReply> done) {
  absl::StatusOr<Call::Begun> begun =
      Call::Begin(*this, entries, /*may_copy=*/true);
  if (!begun.ok()) return std::move(done)(begun.status());
  StartTask(Call::MakePushPull(*this, *std::move(begun), step,
                               std::move(entries), options, &threads),
            std::move(done));
}

void WorkerClient::StartPull(const std::vector<std::string>& keys,
                             const ReadOptions& options, CallThreads& threads,
                             Client::Done<PullReply> done) {
  StartTask(
      Call::MakePull(*this, RequestOf(keys, options.dtype), options, &threads),
      std::move(done));
}

void WorkerClient::StartPullRows(std::vector<PullEntry> entries,
                                 const VerbOptions& options,
                                 CallThreads& threads,
                                 Client::Done<PullReply> done) {
  PullRowsRequest request;
  request.entries = std::move(entries);
  StartTask(Call::MakePullRows(*this, std::move(request), options, &threads),
            std::move(done));
}

absl::Status WorkerClient::Barrier(absl::string_view barrier,
                                   const VerbOptions& options) {
  Call call(*this, Reading(options), /*threads=*/nullptr);
  for (;; call.attempt = recovery_->NextAttempt(call.attempt)) {
    const absl::Status status = call.Bounded(call.reader).Barrier(barrier);
    if (status.ok()) return status;
    RETURN_IF_ERROR(recovery_->Repair(status, call.attempt).Run());
  }
}

}  // namespace tensorkv
