#include "client/client.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "client/client_observer.h"
#include "client/client_tasks.h"
#include "client/cluster/connect.h"
#include "client/cluster/share_outcomes.h"
#include "client/compression/compressor.h"
#include "client/internal/calls/client_calls.h"
#include "client/internal/calls/task.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/steady_now.h"
#include "client/internal/transfer/trimmed_pool.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "contract/request_fields.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxNamespaceBytes = 256;

// Memory of encodings that were sent, kept for those that come next.
constexpr size_t kMaxIdlePayloadBytes = 256 << 20;

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

Compressor::Observer ObserverOf(std::shared_ptr<ClientObserver> observer) {
  if (observer == nullptr) return {};
  return [observer = std::move(observer)](Compression::Kind kind,
                                          int64_t before, int64_t after) {
    observer->OnEncoded(kind, before, after);
  };
}

// Returns the request of a Push, or of a PushPull whose values the options want
// so.
template <typename Request>
Request RequestOf(PushRequest push, const PushOptions& options) {
  Request request = {std::move(push)};
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    request.dtype = options.reply_dtype;
  }
  return request;
}

}  // namespace

struct Client::Shared {
  Shared(std::unique_ptr<Connection> connection, const ClientOptions& options)
      : calls(std::move(connection), options.target),
        name_space(options.name_space),
        transfer(options.transfer),
        observer(options.observer),
        payloads(kMaxIdlePayloadBytes, transfer.max_idle_time),
        compressor(NewCompressor(options.compression)),
        worker(WorkerOf(options)) {}

  std::shared_ptr<Compressor> NewCompressor(
      const CompressionOptions& compression) const {
    return std::make_shared<Compressor>(compression, ObserverOf(observer),
                                        payloads.pool());
  }

  // Returns a push without its entries.
  PushRequest NewPush(const PushOptions& options) {
    PushRequest request = {
        .name_space = name_space,
        .worker = options.worker ? options.worker : CurrentWorker(),
        .step = options.step,
        .publish_as = options.publish_as,
        .with_tokens = options.with_tokens};
    if (request.step == 0 && request.worker) request.step = step + 1;
    return request;
  }

  bool Encodes(const PushOptions& options) {
    return !options.is_encoded && Encodes();
  }
  bool Encodes() { return !CurrentCompressor()->options().rules.empty(); }

  // Makes a Push or a PushPull. Its entries may be cast as they are sent if its
  // caller waits. What they leave out counts once, unless the call has
  // certainly had no effect.
  template <typename Request>
  static Task<absl::StatusOr<ReplyTo<Request>>> MakePush(
      Client client, std::vector<PushEntry> entries, PushOptions options,
      CallThreads* threads) {
    Residuals left(threads == nullptr && client.calls_->CastsAsItSends());
    Shared& shared = *client.shared_;
    Request request = RequestOf<Request>(shared.NewPush(options), options);
    if (!options.is_encoded) {
      CO_ASSIGN_OR_RETURN(
          entries, client.Encode(request.step, std::move(entries), &left));
    }
    request.entries = std::move(entries);
    CallOptions of_call = client.call_options_;
    of_call.casts = left.casts();
    bool is_answered = false;
    absl::StatusOr<ReplyTo<Request>> reply =
        co_await shared.calls.Make(request, of_call, threads, &is_answered);
    if (is_answered || MayHavePushed<Request>(reply.status())) left.Keep();
    if (reply.ok()) shared.step = request.step;
    co_return std::move(reply);
  }

  static Task<absl::StatusOr<PushReply>> MakePushRows(
      Client client, std::vector<PushEntry> entries, PushOptions options,
      CallThreads* threads) {
    Shared& shared = *client.shared_;
    PushRowsRequest request;
    static_cast<PushRequest&>(request) = shared.NewPush(options);
    if (!options.is_encoded) {
      CO_ASSIGN_OR_RETURN(entries,
                          client.Encode(request.step, std::move(entries)));
    }
    request.entries = std::move(entries);
    absl::StatusOr<PushReply> reply =
        co_await shared.calls.Make(request, client.call_options_, threads);
    if (reply.ok()) shared.step = request.step;
    co_return std::move(reply);
  }

  std::shared_ptr<Compressor> CurrentCompressor() {
    MutexLock lock(&mutex);
    return compressor;
  }

  std::optional<Worker> CurrentWorker() {
    MutexLock lock(&mutex);
    return worker;
  }

  // Returns the request of a member, of the namespace in which it has joined.
  // Errors: FailedPrecondition for a client that is no worker.
  template <typename Request>
  absl::StatusOr<Request> NewRequestOfMember() {
    MutexLock lock(&mutex);
    if (worker) {
      Request request;
      request.set_namespace_(name_space);
      tensorkv::SetWorker(*worker, request.mutable_worker());
      request.set_namespace_uid(joined_uid);
      return request;
    }
    return absl::FailedPreconditionError(
        "expected a client that has joined, got one that is no worker");
  }

  // `namespace_uid` is 0 where that is not known.
  void SetWorker(const std::optional<Worker>& new_worker,
                 uint64_t namespace_uid = 0) {
    MutexLock lock(&mutex);
    worker = new_worker;
    joined_uid = namespace_uid;
  }

  ClientCalls calls;
  const std::string name_space;
  const TransferOptions transfer;
  const std::shared_ptr<ClientObserver> observer;
  const TrimmedPool payloads;
  std::atomic<Step> step = 0;

  Mutex mutex;
  std::shared_ptr<Compressor> compressor ABSL_GUARDED_BY(mutex);
  std::optional<Worker> worker ABSL_GUARDED_BY(mutex);
  // The uid of the namespace in which the worker has joined, if that is known.
  uint64_t joined_uid ABSL_GUARDED_BY(mutex) = 0;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(
    const ClientOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                   ConnectTo({.target = options.target,
                              .max_message_bytes = options.max_message_bytes,
                              .transfer = options.transfer,
                              .credentials = options.credentials},
                             options.observer, Backoff()));
  return std::make_unique<Client>(std::move(connection), options);
}

Client::Client(std::unique_ptr<Connection> connection,
               const ClientOptions& options)
    : Client(std::make_shared<Shared>(std::move(connection), options),
             {.timeout = options.timeout}) {}

Client::Client(const std::shared_ptr<Shared>& shared, CallOptions call_options)
    : NamespaceVerbs(
          std::shared_ptr<ClientCalls>(shared, &shared->calls),
          std::shared_ptr<const std::string>(shared, &shared->name_space),
          std::move(call_options)),
      shared_(shared) {}

Client Client::WithTimeout(absl::Duration timeout) const {
  return Client(shared_, OptionsWithTimeout(timeout));
}

Client Client::NoLongerThan(absl::Duration timeout) const {
  return WithTimeout(std::min(timeout, call_options_.timeout));
}

Client Client::WithCanceller(std::shared_ptr<Canceller> canceller) const {
  CallOptions options = call_options_;
  options.canceller = std::move(canceller);
  return Client(shared_, std::move(options));
}

Client Client::Into(absl::Span<const Destination> destinations) const {
  CallOptions options = call_options_;
  options.destinations = destinations;
  return Client(shared_, std::move(options));
}

Step Client::step() const { return shared_->step; }

void Client::set_step(Step step) { shared_->step = step; }

absl::Status Client::Init(absl::string_view key, Tensor value,
                          OnExisting on_existing) {
  return Init({{std::string(key), std::move(value)}}, on_existing);
}

absl::Status Client::Init(std::vector<InitEntry> entries,
                          OnExisting on_existing,
                          std::vector<Version>* versions) {
  InitRequest request = {.name_space = shared_->name_space,
                         .on_existing = on_existing,
                         .entries = std::move(entries)};
  ASSIGN_OR_RETURN(InitReply reply, calls_->Call(request, call_options_));
  if (versions != nullptr) *versions = std::move(reply.versions);
  return absl::OkStatus();
}

absl::StatusOr<InitReply> Client::InitAndPublish(std::vector<InitEntry> entries,
                                                 OnExisting on_existing,
                                                 PublishAs publish_as) {
  InitRequest request = {.name_space = shared_->name_space,
                         .on_existing = on_existing,
                         .entries = std::move(entries),
                         .publish_as = std::move(publish_as)};
  return calls_->Call(request, call_options_);
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
  return Shared::MakePush<PushRequest>(*this, std::move(entries), options,
                                       /*threads=*/nullptr)
      .Run();
}

absl::StatusOr<std::vector<PushEntry>> Client::Encode(
    Step step, std::vector<PushEntry> entries, Residuals* left) {
  const std::shared_ptr<Compressor> compressor = shared_->CurrentCompressor();
  if (compressor->options().rules.empty()) return entries;
  // It reads the elements, and may remember what they were.
  const Canceller::Use use(call_options_.canceller);
  if (!use.may_begin()) return absl::CancelledError("cancelled by the caller");
  return compressor->Compress(step, std::move(entries), left);
}

void Client::SetCompression(const CompressionOptions& compression) {
  auto compressor = shared_->NewCompressor(compression);
  MutexLock lock(&shared_->mutex);
  shared_->compressor.swap(compressor);
}

void Client::ForgetResiduals() {
  MutexLock lock(&shared_->mutex);
  shared_->compressor = shared_->NewCompressor(shared_->compressor->options());
}

absl::StatusOr<Value> Client::Pull(absl::string_view key, Version min_version) {
  ASSIGN_OR_RETURN(
      PullReply reply,
      Pull(PullRequest{.entries = {{std::string(key), min_version}}}));
  return std::move(reply.values.front());
}

absl::StatusOr<PullReply> Client::Pull(absl::Span<const std::string> keys) {
  PullRequest request;
  request.entries.reserve(keys.size());
  for (const std::string& key : keys) request.entries.push_back({key, 0});
  return Pull(std::move(request));
}

absl::StatusOr<PullReply> Client::Pull(PullRequest request) {
  return ClientTasks::Pull(*this, std::move(request), /*threads=*/nullptr)
      .Run();
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
  return Shared::MakePush<PushPullRequest>(*this, std::move(entries), options,
                                           /*threads=*/nullptr)
      .Run();
}

absl::StatusOr<PushResult> Client::PushRows(absl::string_view key,
                                            RefPtr<const RowIds> rows,
                                            Tensor contribution,
                                            const PushOptions& options) {
  ASSIGN_OR_RETURN(PushReply reply,
                   PushRows({{.key = std::string(key),
                              .tensor = std::move(contribution),
                              .rows = std::move(rows)}},
                            options));
  return reply.results.front();
}

absl::StatusOr<PushReply> Client::PushRows(std::vector<PushEntry> entries,
                                           const PushOptions& options) {
  return Shared::MakePushRows(*this, std::move(entries), options,
                              /*threads=*/nullptr)
      .Run();
}

absl::StatusOr<Value> Client::PullRows(absl::string_view key,
                                       RefPtr<const RowIds> rows,
                                       Version min_version) {
  PullRowsRequest request;
  request.entries = {{.key = std::string(key),
                      .min_version = min_version,
                      .rows = std::move(rows)}};
  ASSIGN_OR_RETURN(PullReply reply, PullRows(std::move(request)));
  return std::move(reply.values.front());
}

absl::StatusOr<PullReply> Client::PullRows(PullRowsRequest request) {
  return ClientTasks::PullRows(*this, std::move(request), /*threads=*/nullptr)
      .Run();
}

absl::Status Client::SetState(absl::string_view key, absl::string_view state,
                              Tensor value) {
  return SetState({{std::string(key), std::string(state), std::move(value)}});
}

absl::Status Client::SetState(std::vector<SetStateEntry> entries,
                              std::vector<Version>* versions) {
  SetStateRequest request = {.name_space = shared_->name_space,
                             .entries = std::move(entries)};
  ASSIGN_OR_RETURN(SetStateReply reply, calls_->Call(request, call_options_));
  if (versions != nullptr) *versions = std::move(reply.versions);
  return absl::OkStatus();
}

absl::StatusOr<Value> Client::GetState(absl::string_view key,
                                       absl::string_view state) {
  ASSIGN_OR_RETURN(GetStateReply reply,
                   GetState({{std::string(key), std::string(state)}}));
  return std::move(reply.values.front());
}

absl::StatusOr<GetStateReply> Client::GetState(
    std::vector<GetStateEntry> entries) {
  GetStateRequest request = {.name_space = shared_->name_space,
                             .worker = worker(),
                             .entries = std::move(entries)};
  return calls_->Call(request, call_options_);
}

absl::StatusOr<PullReply> Client::Broadcast(std::vector<InitEntry> entries) {
  std::vector<std::string> keys;
  for (const InitEntry& entry : entries) keys.push_back(entry.key);
  RETURN_IF_ERROR(Init(std::move(entries), OnExisting::kKeep));
  return Pull(keys);
}

absl::StatusOr<JoinReply> Client::Join(absl::string_view worker_name,
                                       absl::Duration lease,
                                       uint64_t namespace_uid,
                                       std::optional<uint32_t> rank) {
  return ClientTasks::Join(*this, std::string(worker_name), lease,
                           namespace_uid, rank, /*threads=*/nullptr)
      .Run();
}

absl::StatusOr<KeepAliveReply> Client::KeepAlive(absl::Duration timeout) {
  ASSIGN_OR_RETURN(auto request,
                   shared_->NewRequestOfMember<KeepAliveRequest>());
  return calls_->Call(request, {.timeout = timeout});
}

absl::Status Client::Leave(absl::Duration timeout, LeaveCause cause) {
  const absl::Duration end = SteadyNow() + timeout;
  ASSIGN_OR_RETURN(auto request, shared_->NewRequestOfMember<LeaveRequest>());
  request.set_lost(cause == LeaveCause::kLost);
  absl::Status status = calls_->Call(request, {.timeout = timeout}).status();
  if (absl::IsResourceExhausted(status)) {
    // Maybe there is no memory to remember the call: who leaves frees some.
    request.clear_call_id();
    status = calls_->Send(request, {.timeout = end - SteadyNow()}).status();
    // It has left already, such as at one of several servers.
    if (ReasonOf(status) == Reason::kNotMember) status = absl::OkStatus();
  }
  // One that failed otherwise may be made again.
  if (status.ok() || absl::IsFailedPrecondition(status)) {
    shared_->SetWorker(std::nullopt);
  }
  return status;
}

absl::Status Client::Barrier(absl::string_view barrier) {
  ASSIGN_OR_RETURN(auto request, shared_->NewRequestOfMember<BarrierRequest>());
  request.set_barrier(std::string(barrier));
  return calls_->Call(request, call_options_).status();
}

std::optional<Worker> Client::worker() const {
  return shared_->CurrentWorker();
}

const TransferOptions& Client::transfer() const { return shared_->transfer; }

template <typename Request>
void Client::StartPush(std::vector<PushEntry> entries,
                       const PushOptions& options, CallThreads& threads,
                       Done<ReplyTo<Request>> done) {
  absl::Status usable = CheckNotForked();
  if (!usable.ok()) return std::move(done)(std::move(usable));
  auto push =
      Shared::MakePush<Request>(*this, std::move(entries), options, &threads);
  if (!shared_->Encodes(options)) {
    StartTask(std::move(push), std::move(done));
    return;
  }
  threads.Run([push = std::move(push), done = std::move(done)]() mutable {
    StartTask(std::move(push), std::move(done));
  });
}

void Client::StartPush(std::vector<PushEntry> entries,
                       const PushOptions& options, CallThreads& threads,
                       Done<PushReply> done) {
  StartPush<PushRequest>(std::move(entries), options, threads, std::move(done));
}

void Client::StartPushPull(std::vector<PushEntry> entries,
                           const PushOptions& options, CallThreads& threads,
                           Done<PullReply> done) {
  StartPush<PushPullRequest>(std::move(entries), options, threads,
                             std::move(done));
}

void Client::StartPull(PullRequest request, CallThreads& threads,
                       Done<PullReply> done) {
  absl::Status usable = CheckNotForked();
  if (!usable.ok()) return std::move(done)(std::move(usable));
  StartTask(ClientTasks::Pull(*this, std::move(request), &threads),
            std::move(done));
}

bool ClientTasks::Encodes(const Client& client) {
  return client.shared_->Encodes();
}

Task<absl::StatusOr<PushReply>> ClientTasks::Push(
    Client client, std::vector<PushEntry> entries, PushOptions options,
    CallThreads* threads) {
  const bool has_rows =
      std::any_of(entries.begin(), entries.end(),
                  [](const PushEntry& entry) { return bool{entry.rows}; });
  if (has_rows) {
    return Client::Shared::MakePushRows(std::move(client), std::move(entries),
                                        std::move(options), threads);
  }
  return Client::Shared::MakePush<PushRequest>(
      std::move(client), std::move(entries), std::move(options), threads);
}

Task<absl::StatusOr<PullReply>> ClientTasks::PushPull(
    Client client, std::vector<PushEntry> entries, PushOptions options,
    CallThreads* threads) {
  return Client::Shared::MakePush<PushPullRequest>(
      std::move(client), std::move(entries), std::move(options), threads);
}

Task<absl::StatusOr<PullReply>> ClientTasks::Pull(Client client,
                                                  PullRequest request,
                                                  CallThreads* threads) {
  request.worker = client.worker();
  return PullUnsigned(std::move(client), std::move(request), threads);
}

Task<absl::StatusOr<PullReply>> ClientTasks::PullUnsigned(
    Client client, PullRequest request, CallThreads* threads) {
  request.name_space = client.name_space();
  co_return co_await client.calls_->Make(request, client.call_options_,
                                         threads);
}

Task<absl::StatusOr<PullReply>> ClientTasks::PullRows(Client client,
                                                      PullRowsRequest request,
                                                      CallThreads* threads) {
  if (request.dtype != DType::kUnknown) {
    const absl::Status refused = absl::InvalidArgumentError(
        absl::StrCat("dtype of a pull: expected none for rows, got ",
                     NameOf(request.dtype)));
    co_return client.calls_->Explain(Method::kPullRows, refused);
  }
  request.name_space = client.name_space();
  request.worker = client.worker();
  co_return co_await client.calls_->Make(request, client.call_options_,
                                         threads);
}

Task<absl::StatusOr<JoinReply>> ClientTasks::Join(Client client,
                                                  std::string worker_name,
                                                  absl::Duration lease,
                                                  uint64_t namespace_uid,
                                                  std::optional<uint32_t> rank,
                                                  CallThreads* threads) {
  Client::Shared& shared = *client.shared_;
  JoinRequest request;
  request.set_namespace_(shared.name_space);
  request.set_worker_name(std::move(worker_name));
  EncodeDuration(lease, request.mutable_lease());
  request.set_namespace_uid(namespace_uid);
  request.set_replaces_epoch(client.worker().value_or(Worker()).epoch);
  if (rank) request.set_rank(*rank);
  absl::StatusOr<JoinReply> reply =
      co_await shared.calls.Make(request, client.call_options_, threads);
  if (reply.ok()) {
    shared.SetWorker(WorkerOf(reply->worker()), namespace_uid);
    shared.step = reply->next_step() - 1;
  }
  co_return std::move(reply);
}

}  // namespace tensorkv
