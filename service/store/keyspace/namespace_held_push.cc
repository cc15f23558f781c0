#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/namespace.h"

namespace tensorkv {

// A Push that may not take effect yet, as its worker would run too far ahead.
// Guarded by the namespace's mutex.
class Namespace::HeldPush final : public WaitingCall {
 public:
  HeldPush(Namespace* name_space, PushRequest request, CallContext context,
           std::vector<PullEntry>* names, Reservation held,
           absl::Duration started, ReplyCallback<PushReply> done)
      : WaitingCall(std::move(context), started),
        namespace_(*name_space),
        request_(std::move(request)),
        names_(names),
        held_(std::move(held)),
        done_(std::move(done)) {
    topic = std::string(kProgressTopic);
    reason = WaitReason::kStaleness;
    max_reply_bytes_ = this->context.max_reply_bytes;
    cancellation_ = this->context.cancellation;
    for (const PushEntry& entry : request_.entries) {
      size_bytes_ += sizeof(PushEntry) + entry.key.capacity();
    }
  }

  bool CanEnd() override {
    status_ = namespace_.mode_->CheckWorker(
        request_.worker, namespace_.environment_.alarms->Now());
    awaited_step = namespace_.AwaitedStep(request_.step - 1);
    return !status_.ok() || awaited_step == 0;
  }
  absl::Status Missing() const override {
    return namespace_.DescribeAwaited(awaited_step);
  }
  void Fail(const absl::Status& status) override { status_ = status; }
  uint64_t size_bytes() const override { return size_bytes_; }

  // The push begins anew: what it needs is checked again.
  void Send() override {
    held_.Clear();
    // Not kept: the cancellation's listener keeps this call.
    std::shared_ptr<Cancellation> cancellation = std::move(cancellation_);
    if (!status_.ok()) {
      return SendOnce<PushReply>(std::move(done_), std::move(status_));
    }
    const absl::Duration waited =
        namespace_.environment_.alarms->Now() - started;
    const CallContext rest = {.caller = context.caller,
                              .timeout = context.timeout - waited,
                              .max_reply_bytes = max_reply_bytes_,
                              .cancellation = std::move(cancellation)};
    // Shared: whichever way it goes, the caller gets an answer.
    const auto done =
        std::make_shared<ReplyCallback<PushReply>>(std::move(done_));
    const bool is_submitted = namespace_.Submit(
        [self = namespace_.shared_from_this(), request = std::move(request_),
         rest, names = names_, done]() mutable {
          self->Push(std::move(request), rest, names, std::move(*done));
        });
    if (!is_submitted) {
      std::move (*done)(absl::UnavailableError("the namespace is ending"));
    }
  }

 private:
  Namespace& namespace_;
  PushRequest request_;
  std::vector<PullEntry>* const names_;
  // The tensors of the request are counted here, the rest as metadata.
  Reservation held_;
  uint64_t size_bytes_ = kOverheadBytes;
  ReplyCallback<PushReply> done_;
  absl::Status status_;
  uint64_t max_reply_bytes_;
  std::shared_ptr<Cancellation> cancellation_;
};

bool Namespace::MustHold(const PushRequest& request) {
  if (config_.mode != Mode::kBounded) return false;
  MutexLock lock(&mutex_);
  return AwaitedStep(request.step - 1) > 0 && mode_->CheckStep(request).ok() &&
         mode_->CheckWorker(request.worker, environment_.alarms->Now()).ok();
}

void Namespace::Hold(PushRequest request, const CallContext& context,
                     std::vector<PullEntry>* names,
                     ReplyCallback<PushReply> done) {
  absl::StatusOr<Reservation> held =
      Reservation::Create(memory_.host().contributions, BytesToHold(request));
  if (!held.ok()) return std::move(done)(held.status());
  Start(std::make_shared<HeldPush>(this, std::move(request), context, names,
                                   *std::move(held), environment_.alarms->Now(),
                                   std::move(done)));
}

}  // namespace tensorkv
