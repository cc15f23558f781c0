#include "service/store/keyspace/push/waiting_push.h"

#include <utility>

#include "service/store/keyspace/push/push_admission.h"
#include "service/store/keyspace/waiting_calls.h"

namespace tensorkv {
namespace {

// A Push that may not take effect yet, as its worker would run too far ahead.
// Guarded by the namespace's mutex.
class WaitingPush final : public WaitingCall {
 public:
  WaitingPush(NamespaceState& state, PushRequest request, CallContext context,
              PullRequest* pull, Reservation tensor_bytes,
              absl::Duration started, ReplyCallback<PushReply> done)
      : WaitingCall(std::move(context), started),
        state_(state),
        request_(std::move(request)),
        pull_(pull),
        tensor_bytes_(std::move(tensor_bytes)),
        done_(std::move(done)) {
    topic = std::string(kProgressTopic);
    reason = WaitReason::kStaleness;
    max_reply_bytes_ = this->context.max_reply_bytes;
    cancellation_ = this->context.cancellation;
    for (const PushEntry& entry : request_.entries) {
      size_bytes_ += sizeof(PushEntry) + entry.key.capacity();
      if (entry.encoding) size_bytes_ += sizeof(Encoding);
      if (entry.rows) size_bytes_ += entry.rows->tensor().size_bytes();
    }
  }

  bool CanEnd() override {
    status_ = state_.mode->CheckWorker(request_.worker, state_.Now());
    awaited_step = state_.mode->AwaitedStep(request_.step - 1);
    return !status_.ok() || awaited_step == 0;
  }
  absl::Status Missing() const override {
    return state_.mode->DescribeAwaited(awaited_step, state_.Now());
  }
  void Fail(const absl::Status& status) override { status_ = status; }
  uint64_t size_bytes() const override { return size_bytes_; }

  // The push begins anew: what it needs is checked again.
  void Send() override {
    tensor_bytes_.Clear();
    // Not kept: the cancellation's listener keeps this call.
    std::shared_ptr<Cancellation> cancellation = std::move(cancellation_);
    if (!status_.ok()) {
      return SendOnce<PushReply>(std::move(done_), std::move(status_));
    }
    const absl::Duration waited = state_.Now() - started;
    const CallContext rest = {.caller = context.caller,
                              .timeout = context.timeout - waited,
                              .max_reply_bytes = max_reply_bytes_,
                              .cancellation = std::move(cancellation)};
    // Shared: whichever way it goes, the caller gets an answer.
    const auto done =
        std::make_shared<ReplyCallback<PushReply>>(std::move(done_));
    const bool is_submitted = state_.Submit(
        [state = state_.shared_from_this(), request = std::move(request_), rest,
         pull = pull_, done]() mutable {
          Push(*state, std::move(request), rest, pull, std::move(*done));
        });
    if (!is_submitted) {
      std::move (*done)(absl::UnavailableError("the namespace is ending"));
    }
  }

 private:
  NamespaceState& state_;
  PushRequest request_;
  PullRequest* const pull_;
  // Counts the tensors of the request; the rest is counted as metadata.
  Reservation tensor_bytes_;
  uint64_t size_bytes_ = kOverheadBytes;
  ReplyCallback<PushReply> done_;
  absl::Status status_;
  uint64_t max_reply_bytes_;
  std::shared_ptr<Cancellation> cancellation_;
};

}  // namespace

bool MustWaitForOthers(const NamespaceState& state,
                       const PushRequest& request) {
  const PushMode& mode = *state.mode;
  if (!mode.waits_for_slower()) return false;
  MutexLock lock(&state.mutex);
  return mode.AwaitedStep(request.step - 1) > 0 &&
         mode.CheckStep(request).ok() &&
         mode.CheckWorker(request.worker, state.Now()).ok();
}

void ParkPush(NamespaceState& state, PushRequest request,
              const CallContext& context, PullRequest* pull,
              ReplyCallback<PushReply> done) {
  absl::StatusOr<Reservation> tensor_bytes = Reservation::Create(
      state.memory.host().contributions, UncountedBytes(state.memory, request));
  if (!tensor_bytes.ok()) return std::move(done)(tensor_bytes.status());
  StartCall(state, std::make_shared<WaitingPush>(
                       state, std::move(request), context, pull,
                       *std::move(tensor_bytes), state.Now(), std::move(done)));
}

}  // namespace tensorkv
