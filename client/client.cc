#include "client/client.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/compression/compression_metrics.h"
#include "client/internal/grpc_connection.h"
#include "client/internal/metered_connection.h"
#include "client/internal/retrying_connection.h"
#include "client/internal/steady_now.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxNamespaceBytes = 256;

std::optional<Worker> WorkerOf(const ClientOptions& options) {
  if (!options.rank.has_value()) return std::nullopt;
  return Worker{.rank = *options.rank};
}

absl::Status CheckOptions(const ClientOptions& options) {
  if (options.name_space.size() > kMaxNamespaceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name_space: expected at most ", kMaxNamespaceBytes,
                     " bytes, got ", options.name_space.size()));
  }
  for (const char c : options.name_space) {
    if (absl::ascii_iscntrl(c)) {
      return absl::InvalidArgumentError(
          "name_space: expected no control characters");
    }
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout: expected more than zero, got ",
                     absl::FormatDuration(options.timeout)));
  }
  return absl::OkStatus();
}

// `reply`, if it answers each of `num_entries` entries with one of `answers`,
// which are a part of it.
template <typename Reply, typename Answer>
absl::StatusOr<Reply> Complete(absl::StatusOr<Reply> reply, size_t num_entries,
                               std::vector<Answer> Reply::*answers) {
  if (!reply.ok()) return reply;
  const size_t num_answers = ((*reply).*answers).size();
  if (num_answers == num_entries) return reply;
  return absl::InternalError(absl::StrCat("expected an answer to each of ",
                                          num_entries, " entries, got ",
                                          num_answers));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(
    const ClientOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Connection> connection,
      GrpcConnection::Create({.target = options.target,
                              .max_message_bytes = options.max_message_bytes,
                              .transfer = options.transfer}));
  // Inside the retries, so that the metrics show each attempt.
  if (options.metrics != nullptr) {
    connection = std::make_unique<MeteredConnection>(
        std::move(connection), options.metrics, SteadyNow);
  }
  connection = std::make_unique<RetryingConnection>(
      std::move(connection), Backoff(), SystemRetryEnvironment());
  return std::make_unique<Client>(std::move(connection), options);
}

Client::Client(std::unique_ptr<Connection> connection,
               const ClientOptions& options)
    : connection_(std::move(connection)),
      target_(options.target),
      name_space_(options.name_space),
      call_options_{.timeout = options.timeout},
      compressor_(options.compression, CompressionCounters(options.metrics)),
      worker_(WorkerOf(options)) {}

absl::Status Client::Init(absl::string_view key, Tensor value,
                          OnExisting on_existing) {
  return Init({{std::string(key), std::move(value)}}, on_existing);
}

absl::Status Client::Init(std::vector<InitEntry> entries,
                          OnExisting on_existing) {
  InitRequest request;
  request.name_space = name_space_;
  request.on_existing = on_existing;
  request.entries = std::move(entries);
  const CallLanes::Place call = calls_.Begin();
  request.call_id = call.id();
  return Explain("Init on", connection_->Init(request, call_options_).status());
}

absl::StatusOr<PushResult> Client::Push(absl::string_view key,
                                        Tensor contribution,
                                        const PushOptions& options) {
  ASSIGN_OR_RETURN(
      PushReply reply,
      Push({{.key = std::string(key), .tensor = std::move(contribution)}},
           options));
  return reply.results.front();
}

absl::StatusOr<PushReply> Client::Push(std::vector<PushEntry> entries,
                                       const PushOptions& options) {
  ASSIGN_OR_RETURN(PushRequest request, MakePush(std::move(entries), options));
  const CallLanes::Place call = calls_.Begin();
  request.call_id = call.id();
  absl::StatusOr<PushReply> reply =
      Complete(connection_->Push(request, call_options_),
               request.entries.size(), &PushReply::results);
  if (reply.ok()) step_ = request.step;
  return Explain("Push to", std::move(reply));
}

absl::StatusOr<Value> Client::Pull(absl::string_view key, Version min_version) {
  PullRequest request;
  request.entries = {{std::string(key), min_version}};
  ASSIGN_OR_RETURN(PullReply reply, Pull(std::move(request)));
  return std::move(reply.values.front());
}

absl::StatusOr<PullReply> Client::Pull(absl::Span<const std::string> keys) {
  PullRequest request;
  for (const std::string& key : keys) request.entries.push_back({key, 0});
  return Pull(std::move(request));
}

absl::StatusOr<PullReply> Client::Pull(PullRequest request) {
  request.name_space = name_space_;
  request.worker = worker();
  return Explain("Pull from",
                 Complete(connection_->Pull(request, call_options_),
                          request.entries.size(), &PullReply::values));
}

absl::StatusOr<Value> Client::PushPull(absl::string_view key,
                                       Tensor contribution,
                                       const PushOptions& options) {
  ASSIGN_OR_RETURN(
      PullReply reply,
      PushPull({{.key = std::string(key), .tensor = std::move(contribution)}},
               options));
  return std::move(reply.values.front());
}

absl::StatusOr<PullReply> Client::PushPull(std::vector<PushEntry> entries,
                                           const PushOptions& options) {
  ASSIGN_OR_RETURN(PushRequest request, MakePush(std::move(entries), options));
  const CallLanes::Place call = calls_.Begin();
  request.call_id = call.id();
  absl::StatusOr<PullReply> reply =
      Complete(connection_->PushPull(request, call_options_),
               request.entries.size(), &PullReply::values);
  if (reply.ok()) step_ = request.step;
  return Explain("PushPull with", std::move(reply));
}

absl::StatusOr<PullReply> Client::Broadcast(std::vector<InitEntry> entries) {
  std::vector<std::string> keys;
  for (const InitEntry& entry : entries) keys.push_back(entry.key);
  RETURN_IF_ERROR(Init(std::move(entries), OnExisting::kKeep));
  return Pull(keys);
}

absl::StatusOr<uint64_t> Client::Delete(std::vector<std::string> keys,
                                        bool allow_missing) {
  DeleteRequest request;
  request.name_space = name_space_;
  request.keys = std::move(keys);
  request.allow_missing = allow_missing;
  const CallLanes::Place call = calls_.Begin();
  request.call_id = call.id();
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  absl::StatusOr<DeleteReply> reply =
      connection_->Delete(request, call_options_);
  if (absl::IsResourceExhausted(reply.status())) {
    // Nothing has happened, maybe for want of room to remember the call: what
    // makes room must not need it.
    request.call_id.reset();
    reply = connection_->Delete(request, {.timeout = end - SteadyNow()});
  }
  RETURN_IF_ERROR(Explain("Delete on", reply.status()));
  return reply->num_deleted;
}

absl::StatusOr<ListReply> Client::List(ListRequest request) {
  request.name_space = name_space_;
  return Explain("List on", connection_->List(request, call_options_));
}

absl::StatusOr<std::vector<KeyStatus>> Client::Stat(
    std::vector<std::string> keys, bool with_digest) {
  StatRequest request;
  request.name_space = name_space_;
  request.keys = std::move(keys);
  request.with_digest = with_digest;
  ASSIGN_OR_RETURN(
      StatReply reply,
      Explain("Stat on", Complete(connection_->Stat(request, call_options_),
                                  request.keys.size(), &StatReply::keys)));
  return std::move(reply.keys);
}

absl::Status Client::SetRule(const RuleSpec& rule,
                             absl::string_view key_pattern) {
  const CallLanes::Place call = calls_.Begin();
  const SetRuleRequest request = {.name_space = name_space_,
                                  .key_pattern = std::string(key_pattern),
                                  .rule = rule,
                                  .call_id = call.id()};
  return Explain("SetRule on", connection_->SetRule(request, call_options_));
}

absl::Status Client::UnsetRule(absl::string_view key_pattern) {
  const CallLanes::Place call = calls_.Begin();
  const UnsetRuleRequest request = {.name_space = name_space_,
                                    .key_pattern = std::string(key_pattern),
                                    .call_id = call.id()};
  return Explain("UnsetRule on",
                 connection_->UnsetRule(request, call_options_));
}

absl::StatusOr<RuleSpec> Client::SetHyperparameters(
    const Hyperparameters& hyperparameters, absl::string_view key_pattern) {
  const CallLanes::Place call = calls_.Begin();
  const SetHyperparametersRequest request = {
      .name_space = name_space_,
      .key_pattern = std::string(key_pattern),
      .hyperparameters = hyperparameters,
      .call_id = call.id()};
  return Explain("SetHyperparameters on",
                 connection_->SetHyperparameters(request, call_options_));
}

absl::Status Client::CreateNamespace(absl::string_view name,
                                     const NamespaceConfig& config,
                                     OnExisting on_existing) {
  const CallLanes::Place call = calls_.Begin();
  const CreateNamespaceRequest request = {.name_space = std::string(name),
                                          .config = config,
                                          .on_existing = on_existing,
                                          .call_id = call.id()};
  return Explain("CreateNamespace on",
                 connection_->CreateNamespace(request, call_options_).status());
}

absl::StatusOr<NamespaceStatus> Client::DescribeNamespace(
    absl::string_view name) {
  return Explain("DescribeNamespace on", connection_->DescribeNamespace(
                                             std::string(name), call_options_));
}

absl::StatusOr<std::vector<NamespaceStatus>> Client::ListNamespaces() {
  return Explain("ListNamespaces on",
                 connection_->ListNamespaces(call_options_));
}

absl::Status Client::DeleteNamespace(absl::string_view name) {
  return Explain("DeleteNamespace on", connection_->DeleteNamespace(
                                           std::string(name), call_options_));
}

absl::StatusOr<JoinReply> Client::Join(absl::string_view worker_name,
                                       absl::Duration lease) {
  const CallLanes::Place call = calls_.Begin();
  const JoinRequest request = {
      .name_space = name_space_,
      .worker_name = std::string(worker_name),
      .lease = lease,
      .call_id = call.id(),
      .replaces_epoch = worker().value_or(Worker()).epoch};
  ASSIGN_OR_RETURN(
      JoinReply reply,
      Explain("Join on", connection_->Join(request, call_options_)));
  set_worker(reply.worker);
  step_ = reply.next_step - 1;
  return reply;
}

absl::StatusOr<KeepAliveReply> Client::KeepAlive(absl::Duration timeout) {
  ASSIGN_OR_RETURN(const Worker worker, CheckedWorker());
  return Explain(
      "KeepAlive on",
      connection_->KeepAlive({.name_space = name_space_, .worker = worker},
                             {.timeout = timeout}));
}

absl::Status Client::Leave(absl::Duration timeout) {
  ASSIGN_OR_RETURN(const Worker worker, CheckedWorker());
  const CallLanes::Place call = calls_.Begin();
  const LeaveRequest request = {
      .name_space = name_space_, .worker = worker, .call_id = call.id()};
  const absl::Status status = connection_->Leave(request, {.timeout = timeout});
  // One that failed otherwise may be made again.
  if (status.ok() || absl::IsFailedPrecondition(status)) {
    set_worker(std::nullopt);
  }
  return Explain("Leave on", status);
}

absl::Status Client::Barrier(absl::string_view barrier) {
  ASSIGN_OR_RETURN(const Worker worker, CheckedWorker());
  const CallLanes::Place call = calls_.Begin();
  const BarrierRequest request = {.name_space = name_space_,
                                  .worker = worker,
                                  .barrier = std::string(barrier),
                                  .call_id = call.id()};
  return Explain("Barrier on", connection_->Barrier(request, call_options_));
}

std::optional<Worker> Client::worker() const {
  MutexLock lock(&mutex_);
  return worker_;
}

void Client::set_worker(const std::optional<Worker>& worker) {
  MutexLock lock(&mutex_);
  worker_ = worker;
}

absl::StatusOr<Worker> Client::CheckedWorker() const {
  const std::optional<Worker> present = worker();
  if (present) return *present;
  return absl::FailedPreconditionError(
      "expected a client that has joined, got one that is no worker");
}

absl::StatusOr<ServerStatus> Client::DescribeServer() {
  return Explain("DescribeServer of",
                 connection_->DescribeServer(call_options_));
}

absl::StatusOr<PushRequest> Client::MakePush(std::vector<PushEntry> entries,
                                             const PushOptions& options) {
  PushRequest request;
  request.name_space = name_space_;
  request.worker = worker();
  request.step = options.step;
  if (request.step == 0 && request.worker) request.step = step_ + 1;
  ASSIGN_OR_RETURN(request.entries,
                   compressor_.Compress(request.step, std::move(entries)));
  return request;
}

absl::Status Client::Explain(absl::string_view attempt,
                             const absl::Status& status) const {
  if (status.ok() || target_.empty()) return status;
  absl::Status explained(status.code(), absl::StrCat(attempt, " ", target_,
                                                     ": ", status.message()));
  // The reason among them.
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    explained.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return explained;
}

template <typename T>
absl::StatusOr<T> Client::Explain(absl::string_view attempt,
                                  absl::StatusOr<T> result) const {
  if (!result.ok()) return Explain(attempt, result.status());
  return result;
}

}  // namespace tensorkv
