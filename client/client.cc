#include "client/client.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/grpc_connection.h"
#include "client/metered_connection.h"
#include "client/retrying_connection.h"
#include "client/steady_now.h"

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
      worker_(WorkerOf(options)),
      call_options_{.timeout = options.timeout} {}

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
  const PushRequest request = MakePush(std::move(entries), options);
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
  request.worker = worker_;
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
  const PushRequest request = MakePush(std::move(entries), options);
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
                                        bool ignore_missing) {
  DeleteRequest request;
  request.name_space = name_space_;
  request.keys = std::move(keys);
  request.ignore_missing = ignore_missing;
  ASSIGN_OR_RETURN(
      const DeleteReply reply,
      Explain("Delete on", connection_->Delete(request, call_options_)));
  return reply.num_deleted;
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
  const SetRuleRequest request = {.name_space = name_space_,
                                  .key_pattern = std::string(key_pattern),
                                  .rule = rule};
  return Explain("SetRule on", connection_->SetRule(request, call_options_));
}

absl::StatusOr<RuleSpec> Client::SetHyperparameters(
    const Hyperparameters& hyperparameters, absl::string_view key_pattern) {
  const SetHyperparametersRequest request = {
      .name_space = name_space_,
      .key_pattern = std::string(key_pattern),
      .hyperparameters = hyperparameters};
  return Explain("SetHyperparameters on",
                 connection_->SetHyperparameters(request, call_options_));
}

absl::Status Client::CreateNamespace(absl::string_view name,
                                     const NamespaceConfig& config,
                                     OnExisting on_existing) {
  const CreateNamespaceRequest request = {.name_space = std::string(name),
                                          .config = config,
                                          .on_existing = on_existing};
  return Explain("CreateNamespace on",
                 connection_->CreateNamespace(request, call_options_));
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

absl::StatusOr<ServerStatus> Client::DescribeServer() {
  return Explain("DescribeServer of",
                 connection_->DescribeServer(call_options_));
}

PushRequest Client::MakePush(std::vector<PushEntry> entries,
                             const PushOptions& options) const {
  PushRequest request;
  request.name_space = name_space_;
  request.worker = worker_;
  request.step = options.step;
  if (request.step == 0 && worker_.has_value()) request.step = step_ + 1;
  request.entries = std::move(entries);
  return request;
}

absl::Status Client::Explain(absl::string_view attempt,
                             const absl::Status& status) const {
  if (status.ok() || target_.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(attempt, " ", target_, ": ",
                                                  status.message()));
}

template <typename T>
absl::StatusOr<T> Client::Explain(absl::string_view attempt,
                                  absl::StatusOr<T> result) const {
  if (!result.ok()) return Explain(attempt, result.status());
  return result;
}

}  // namespace tensorkv
