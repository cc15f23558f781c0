#include "python/core/session.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "client/local/local_connection.h"

namespace tensorkv::python {
namespace {

absl::StatusOr<Tensor> CopyOf(const Tensor& tensor) {
  return Tensor::CopyOf(tensor.dtype(), tensor.shape(), tensor.data());
}

// Nothing reads the tensors any more once somebody has cancelled and waited.
template <typename Entry>
absl::Status CopyTensors(const SharedCanceller& canceller,
                         std::vector<Entry>& entries) {
  const Canceller::Use use(canceller);
  if (!use.may_begin()) return absl::CancelledError("cancelled by the caller");
  for (Entry& entry : entries) {
    ASSIGN_OR_RETURN(entry.tensor, CopyOf(entry.tensor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> Session::Connect(
    const ClientOptions& options) {
  std::shared_ptr<Session> session(new Session(/*is_embedded=*/false));
  ASSIGN_OR_RETURN(session->client_,
                   Client::Connect(session->Observed(options)));
  return session;
}

std::shared_ptr<Session> Session::Embed(int num_threads) {
  std::shared_ptr<Session> session(new Session(/*is_embedded=*/true));
  LocalConnectionOptions options;
  options.num_threads = num_threads;
  // No target: errors then have no prefix.
  session->client_ = std::make_unique<Client>(
      std::make_unique<LocalConnection>(options), ClientOptions{.target = ""});
  return session;
}

ClientOptions Session::Observed(ClientOptions options) const {
  options.observer = traffic_;
  return options;
}

absl::Status Session::Join(const ClientOptions& client_options,
                           const WorkerOptions& options) {
  if (worker_ != nullptr) {
    return absl::FailedPreconditionError("expected a client that is no worker");
  }
  // A client of its own: one that cannot join stays what it was.
  ASSIGN_OR_RETURN(worker_,
                   WorkerClient::Join(Observed(client_options), options));
  client_ = nullptr;
  return absl::OkStatus();
}

absl::Status Session::Init(std::vector<InitEntry> entries,
                           OnExisting on_existing, SharedCanceller canceller) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(canceller, entries));
  return client()
      .WithCanceller(std::move(canceller))
      .Init(std::move(entries), on_existing);
}

absl::StatusOr<PushReply> Session::Push(std::vector<PushEntry> entries,
                                        Step step, SharedCanceller canceller) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(canceller, entries));
  if (worker_ == nullptr) {
    return client_->WithCanceller(std::move(canceller))
        .Push(std::move(entries), {.step = step});
  }
  RETURN_IF_ERROR(
      worker_->Push(step, std::move(entries), std::move(canceller)));
  return PushReply();
}

absl::StatusOr<PullReply> Session::PushPull(std::vector<PushEntry> entries,
                                            Step step,
                                            const ReadOptions& options) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(options.canceller, entries));
  if (worker_ != nullptr) {
    return worker_->PushPull(step, std::move(entries), options);
  }
  return Reading(options).PushPull(std::move(entries), {.step = step});
}

void Session::StartPush(std::vector<PushEntry> entries, Step step,
                        Client::Done<PushReply> done) {
  client_->StartPush(std::move(entries), {.step = step}, pushing_threads_,
                     std::move(done));
}

void Session::StartPushPull(std::vector<PushEntry> entries, Step step,
                            absl::Span<const Destination> into,
                            Client::Done<PullReply> done) {
  client_->Into(into).StartPushPull(std::move(entries), {.step = step},
                                    waiting_threads_, std::move(done));
}

void Session::StartPull(PullRequest request, absl::Span<const Destination> into,
                        Client::Done<PullReply> done) {
  client_->Into(into).StartPull(std::move(request), waiting_threads_,
                                std::move(done));
}

Client Session::Reading(const ReadOptions& options) {
  return client().Into(options.into).WithCanceller(options.canceller);
}

absl::StatusOr<PullReply> Session::Pull(PullRequest request,
                                        const ReadOptions& options) {
  const bool is_plain =
      !request.wait_for_keys &&
      std::all_of(request.entries.begin(), request.entries.end(),
                  [](const PullEntry& e) {
                    return e.min_version == 0 && e.state.empty();
                  });
  // What waits for something else than rounds needs no recovery.
  if (worker_ == nullptr || !is_plain) {
    return Reading(options).Pull(std::move(request));
  }
  std::vector<std::string> keys;
  keys.reserve(request.entries.size());
  for (PullEntry& entry : request.entries) keys.push_back(std::move(entry.key));
  ReadOptions with_dtype = options;
  with_dtype.dtype = request.dtype;
  return worker_->Pull(keys, with_dtype);
}

absl::StatusOr<PushReply> Session::PushRows(std::vector<PushEntry> entries,
                                            Step step,
                                            SharedCanceller canceller) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(canceller, entries));
  if (worker_ == nullptr) {
    return client_->WithCanceller(std::move(canceller))
        .PushRows(std::move(entries), {.step = step});
  }
  RETURN_IF_ERROR(
      worker_->PushRows(step, std::move(entries), std::move(canceller)));
  return PushReply();
}

absl::StatusOr<PullReply> Session::PullRows(std::vector<PullEntry> entries,
                                            SharedCanceller canceller) {
  if (worker_ != nullptr) {
    return worker_->PullRows(std::move(entries), std::move(canceller));
  }
  PullRowsRequest request;
  request.entries = std::move(entries);
  return client_->WithCanceller(std::move(canceller))
      .PullRows(std::move(request));
}

absl::Status Session::Barrier(const std::string& name,
                              SharedCanceller canceller) {
  if (worker_ != nullptr) return worker_->Barrier(name, std::move(canceller));
  return client_->WithCanceller(std::move(canceller)).Barrier(name);
}

absl::Status Session::Own(PullReply& reply) const {
  if (!is_embedded_) return absl::OkStatus();
  for (Value& value : reply.values) {
    ASSIGN_OR_RETURN(value.tensor, CopyOf(value.tensor));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::python
