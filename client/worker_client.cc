#include "client/worker_client.h"

#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "client/cluster/share_outcomes.h"
#include "client/compression/compressor.h"
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

// Pushes what `recovery` keeps.
absl::Status PushKept(const Client& client, WorkerRecovery& recovery,
                      const Contribution& contribution, const Attempt& attempt,
                      Residuals& left) {
  if (recovery.open().IsForgotten(contribution)) return absl::OkStatus();
  Client pusher =
      recovery.WithDeadline(attempt, client.WithCanceller(attempt.canceller));
  const absl::StatusOr<PushReply> reply = WorkerRecovery::PushOnce(
      pusher, attempt.as.worker, contribution.step, *contribution.entries);
  if (!reply.ok()) {
    absl::Status retried =
        recovery.RetryContribution(contribution, reply.status(), attempt);
    KeepIfPushed<PushRequest>(reply.status(), retried, left);
    return retried;
  }
  left.Keep();
  return recovery.TakeIn(*reply, contribution);
}

Client ReadingClient(const Client& client, const ReadOptions& options) {
  return client.Into(options.into).WithCanceller(options.canceller);
}

// `read(Client&)` makes one attempt to read these keys.
template <typename Reader>
absl::StatusOr<PullReply> PullRetrying(WorkerRecovery& recovery,
                                       const std::vector<std::string>& keys,
                                       Attempt attempt, const Client& reader,
                                       Reader read) {
  for (;;) {
    attempt = recovery.NextAttempt(attempt);
    const uint64_t waiting = recovery.open().WaitingMark();
    Client client = recovery.WithDeadline(attempt, reader);
    absl::StatusOr<PullReply> reply = read(client);
    if (reply.ok()) {
      recovery.open().RemoveWaiting(keys, waiting);
      return reply;
    }
    RETURN_IF_ERROR(recovery.Repair(reply.status(), attempt));
  }
}

absl::StatusOr<PullReply> PullRetrying(WorkerRecovery& recovery,
                                       const std::vector<std::string>& keys,
                                       DType dtype, const Attempt& attempt,
                                       const Client& reader) {
  const auto read = [&](Client& client) -> absl::StatusOr<PullReply> {
    if (recovery.IsRepeating()) {
      RETURN_IF_ERROR(recovery.AwaitRepeated(keys, attempt, client.Into({})));
      return recovery.WithDeadline(attempt, client).PullLatest(keys, dtype);
    }
    PullRequest request = {.dtype = dtype};
    for (const std::string& key : keys) request.entries.push_back({key});
    return client.Pull(std::move(request));
  };
  return PullRetrying(recovery, keys, attempt, reader, read);
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
  ASSIGN_OR_RETURN(
      const JoinReply reply,
      WorkerRecovery::Join(*client, options, status.uid(), environment));
  std::unique_ptr<WorkerRecovery> recovery;
  try {
    recovery = std::make_unique<WorkerRecovery>(
        *client, options, std::move(environment), status, reply);
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

absl::Status WorkerClient::Rejoin(SharedCanceller canceller,
                                  std::optional<absl::Duration> timeout) {
  return recovery_->Rejoin(std::move(canceller), timeout);
}

Step WorkerClient::last_dropped_step() const {
  return recovery_->last_dropped_step();
}

Step WorkerClient::step() {
  return recovery_->open().NextStep([this] { client_->ForgetResiduals(); });
}

bool WorkerClient::has_gone_back() const {
  return recovery_->open().IsForgetting();
}

absl::StatusOr<PullReply> WorkerClient::PushPull(Step step,
                                                 std::vector<PushEntry> entries,
                                                 const ReadOptions& options) {
  Residuals left(/*takes_casts=*/false);
  ASSIGN_OR_RETURN(
      const Contribution contribution,
      recovery_->Keep(step, std::move(entries), options.canceller, left));
  const Attempt attempt = recovery_->Begin(options.canceller, options.timeout);
  const Client reader = ReadingClient(*client_, options);
  // The reply to a PushPull would not say what is carried.
  if (recovery_->may_carry() || recovery_->open().IsForgotten(contribution)) {
    RETURN_IF_ERROR(
        PushKept(*client_, *recovery_, contribution, attempt, left));
    return PullRetrying(*recovery_, KeysOf(*contribution.entries),
                        options.dtype, attempt, reader);
  }
  absl::StatusOr<PullReply> reply =
      recovery_->WithDeadline(attempt, reader)
          .PushPull(*contribution.entries, {.step = step,
                                            .is_encoded = true,
                                            .worker = attempt.as.worker,
                                            .reply_dtype = options.dtype});
  if (reply.ok()) {
    left.Keep();
    recovery_->open().RemoveUpTo(contribution);
    return reply;
  }
  const absl::Status retried =
      recovery_->RetryContribution(contribution, reply.status(), attempt);
  KeepIfPushed<PushPullRequest>(reply.status(), retried, left);
  RETURN_IF_ERROR(retried);
  return PullRetrying(*recovery_, KeysOf(*contribution.entries), options.dtype,
                      attempt, reader);
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
                   recovery_->Keep(step, std::move(entries), canceller, left));
  return PushKept(*client_, *recovery_, contribution,
                  recovery_->Begin(std::move(canceller), timeout), left);
}

absl::Status WorkerClient::PushRows(Step step, std::vector<PushEntry> entries,
                                    SharedCanceller canceller,
                                    std::optional<absl::Duration> timeout) {
  return Push(step, std::move(entries), std::move(canceller), timeout);
}

absl::StatusOr<PullReply> WorkerClient::Pull(
    const std::vector<std::string>& keys, const ReadOptions& options) {
  return PullRetrying(*recovery_, keys, options.dtype,
                      recovery_->Begin(options.canceller, options.timeout),
                      ReadingClient(*client_, options));
}

absl::StatusOr<PullReply> WorkerClient::PullRows(
    std::vector<PullEntry> entries, SharedCanceller canceller,
    std::optional<absl::Duration> timeout) {
  const Client reader = client_->WithCanceller(canceller);
  return PullRetrying(*recovery_, KeysOf(entries),
                      recovery_->Begin(std::move(canceller), timeout), reader,
                      [&](Client& client) {
                        PullRowsRequest request;
                        request.entries = entries;
                        return client.PullRows(std::move(request));
                      });
}

absl::Status WorkerClient::Barrier(absl::string_view barrier,
                                   SharedCanceller canceller,
                                   std::optional<absl::Duration> timeout) {
  const Client client = client_->WithCanceller(canceller);
  for (Attempt attempt = recovery_->Begin(std::move(canceller), timeout);;
       attempt = recovery_->NextAttempt(attempt)) {
    const absl::Status status =
        recovery_->WithDeadline(attempt, client).Barrier(barrier);
    if (status.ok()) return status;
    RETURN_IF_ERROR(recovery_->Repair(status, attempt));
  }
}

}  // namespace tensorkv
