#include "python/core/session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "client/internal/steady_now.h"
#include "client/local/local_connection.h"

namespace tensorkv::python {
namespace {

absl::StatusOr<Tensor> CopyOf(const Tensor& tensor) {
  return Tensor::CopyOf(tensor.dtype(), tensor.shape(), tensor.data());
}

// Nobody waits longer to hear whether the server was restarted.
constexpr absl::Duration kLongestLook = absl::Seconds(5);

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

absl::Status CheckPublishesNothing(const PushOptions& options) {
  if (!options.publish_as) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "publish_as: expected a client that has not joined, got a worker, which "
      "pushes again what is lost; create_snapshot is for it");
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> Session::Connect(
    const ClientOptions& options) {
  std::shared_ptr<Session> session(new Session(/*is_embedded=*/false));
  ASSIGN_OR_RETURN(session->client_, Client::Connect(options));
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

absl::Status Session::Join(const ClientOptions& client_options,
                           const WorkerOptions& options) {
  if (worker_ != nullptr) {
    return absl::FailedPreconditionError("expected a client that is no worker");
  }
  // A client of its own: one that cannot join stays what it was.
  ASSIGN_OR_RETURN(worker_, WorkerClient::Join(client_options, options));
  client_ = nullptr;
  return absl::OkStatus();
}

void Session::Leave(bool is_lost) {
  if (worker_ == nullptr) return;
  // Whoever cannot say so is noticed to be gone.
  worker_->Leave(is_lost ? LeaveCause::kLost : LeaveCause::kDone).IgnoreError();
}

absl::StatusOr<Step> Session::Resume(const CallBounds& bounds) {
  if (worker_ == nullptr) {
    return absl::FailedPreconditionError(
        "resume: expected a worker, got a client that has not joined");
  }
  const absl::Duration begin = SteadyNow();
  const absl::Duration longest = bounds.timeout.value_or(kLongestLook);
  // A server that does not answer is left to the calls that follow.
  const absl::Status status =
      worker_->client().KeepAlive(std::min(longest, kLongestLook)).status();
  if (absl::IsNotFound(status)) return status;
  if (absl::IsFailedPrecondition(status)) {
    std::optional<absl::Duration> left = bounds.timeout;
    if (left) *left -= SteadyNow() - begin;
    RETURN_IF_ERROR(
        worker_->Rejoin({.canceller = bounds.canceller, .timeout = left}));
  }
  return worker_->Resume();
}

Client Session::Bounded(const CallBounds& bounds) {
  const Client bounded = client().WithCanceller(bounds.canceller);
  return bounds.timeout ? bounded.WithTimeout(*bounds.timeout) : bounded;
}

absl::StatusOr<InitReply> Session::Init(std::vector<InitEntry> entries,
                                        OnExisting on_existing,
                                        std::optional<PublishAs> publish_as,
                                        const CallBounds& bounds) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(bounds.canceller, entries));
  if (publish_as) {
    return Bounded(bounds).InitAndPublish(std::move(entries), on_existing,
                                          *std::move(publish_as));
  }
  InitReply reply;
  RETURN_IF_ERROR(
      Bounded(bounds).Init(std::move(entries), on_existing, &reply.versions));
  return reply;
}

absl::StatusOr<SetStateReply> Session::SetState(
    std::vector<SetStateEntry> entries, const CallBounds& bounds) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(bounds.canceller, entries));
  SetStateReply reply;
  RETURN_IF_ERROR(
      Bounded(bounds).SetState(std::move(entries), &reply.versions));
  return reply;
}

absl::StatusOr<GetStateReply> Session::GetState(
    std::vector<GetStateEntry> entries, absl::Span<const Destination> into,
    const CallBounds& bounds) {
  return Own(Bounded(bounds).Into(into).GetState(std::move(entries)), into);
}

absl::StatusOr<PushReply> Session::Push(std::vector<PushEntry> entries,
                                        const PushOptions& options,
                                        const CallBounds& bounds) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(bounds.canceller, entries));
  if (worker_ == nullptr) {
    return Bounded(bounds).Push(std::move(entries), options);
  }
  RETURN_IF_ERROR(CheckPublishesNothing(options));
  RETURN_IF_ERROR(worker_->Push(options.step, std::move(entries), bounds));
  return PushReply();
}

absl::StatusOr<PushReply> Session::PushChanges(std::vector<PushEntry> entries,
                                               const PushOptions& options,
                                               SharedChangeWriter& changes,
                                               const CallBounds& bounds) {
  if (worker_ != nullptr) RETURN_IF_ERROR(CheckPublishesNothing(options));
  RETURN_IF_ERROR(CopyTensors(bounds.canceller, entries));
  return changes.Push(Bounded(bounds), std::move(entries), options,
                      bounds.timeout.value_or(absl::InfiniteDuration()));
}

absl::StatusOr<PullReply> Session::PushPull(std::vector<PushEntry> entries,
                                            Step step,
                                            absl::Span<const Destination> into,
                                            const CallBounds& bounds) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(bounds.canceller, entries));
  if (worker_ != nullptr) {
    return worker_->PushPull(step, std::move(entries),
                             {.into = into,
                              .canceller = bounds.canceller,
                              .timeout = bounds.timeout});
  }
  return Own(
      Bounded(bounds).Into(into).PushPull(std::move(entries), {.step = step}),
      into);
}

absl::StatusOr<PullReply> Session::Pull(PullRequest request,
                                        absl::Span<const Destination> into,
                                        const CallBounds& bounds) {
  const bool reads_latest =
      !request.at && !request.wait_for_keys &&
      std::all_of(request.entries.begin(), request.entries.end(),
                  [](const PullEntry& e) { return e.min_version == 0; });
  // What waits for something else than rounds needs no recovery.
  if (worker_ == nullptr || !reads_latest) {
    return Own(Bounded(bounds).Into(into).Pull(std::move(request)), into);
  }
  std::vector<std::string> keys;
  keys.reserve(request.entries.size());
  for (PullEntry& entry : request.entries) keys.push_back(std::move(entry.key));
  return worker_->Pull(keys, {.dtype = request.dtype,
                              .into = into,
                              .canceller = bounds.canceller,
                              .timeout = bounds.timeout});
}

absl::StatusOr<PushReply> Session::PushRows(std::vector<PushEntry> entries,
                                            const PushOptions& options,
                                            const CallBounds& bounds) {
  if (is_embedded_) RETURN_IF_ERROR(CopyTensors(bounds.canceller, entries));
  if (worker_ == nullptr) {
    return Bounded(bounds).PushRows(std::move(entries), options);
  }
  RETURN_IF_ERROR(CheckPublishesNothing(options));
  RETURN_IF_ERROR(worker_->Push(options.step, std::move(entries), bounds));
  return PushReply();
}

absl::StatusOr<PullReply> Session::PullRows(PullRowsRequest request,
                                            const CallBounds& bounds) {
  if (worker_ != nullptr && !request.at) {
    return worker_->PullRows(std::move(request.entries), bounds);
  }
  return Own(Bounded(bounds).PullRows(std::move(request)));
}

absl::Status Session::Barrier(const std::string& name,
                              const CallBounds& bounds) {
  if (worker_ != nullptr) {
    return worker_->Barrier(name, bounds);
  }
  return Bounded(bounds).Barrier(name);
}

absl::StatusOr<PullReply> Session::Own(
    absl::StatusOr<PullReply> reply, absl::Span<const Destination> into) const {
  if (!is_embedded_ || !into.empty() || !reply.ok()) return reply;
  for (Value& value : reply->values) {
    ASSIGN_OR_RETURN(value.tensor, CopyOf(value.tensor));
  }
  return reply;
}

}  // namespace tensorkv::python
