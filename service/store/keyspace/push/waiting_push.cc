#include "service/store/keyspace/push/waiting_push.h"

#include <utility>

#include "service/store/keyspace/push/push_check.h"
#include "service/store/keyspace/waiting_calls.h"

namespace tensorkv {
namespace {

// A Push that may not take effect yet, as its worker would run too far ahead.
// Guarded by the namespace's mutex.
class WaitingPush final : public WaitingCall {
 public:
  WaitingPush(NamespaceState& state, PushCall call, Reservation tensor_bytes)
      : WaitingCall(call.context, state.Now()),
        state_(state),
        call_(std::move(call)),
        tensor_bytes_(std::move(tensor_bytes)) {
    topic = std::string(kProgressTopic);
    reason = WaitReason::kStaleness;
    for (const PushEntry& entry : call_.request.entries) {
      size_bytes_ += sizeof(PushEntry) + entry.key.capacity();
      if (entry.encoding) size_bytes_ += sizeof(Encoding);
      if (entry.delta) {
        size_bytes_ += sizeof(PushedDelta) + entry.delta->base.capacity();
      }
      if (entry.rows) size_bytes_ += entry.rows->tensor().size_bytes();
    }
    if (const auto& publish_as = call_.request.publish_as) {
      size_bytes_ += publish_as->SpaceUsedLong();
    }
  }

  bool CanEnd() override {
    status_ = state_.mode->CheckWorker(call_.request.worker, state_.Now());
    awaited_step = state_.mode->AwaitedStep(call_.request.step - 1);
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
    // Not kept: the cancellation's listener keeps this.
    PushCall call = std::move(call_);
    if (!status_.ok()) return std::move(call.done)(std::move(status_));
    call.context.timeout -= state_.Now() - started;
    PushOnPool(state_, std::move(call));
  }

 private:
  NamespaceState& state_;
  PushCall call_;
  // Counts the tensors of the request; the rest is counted as metadata.
  Reservation tensor_bytes_;
  uint64_t size_bytes_ = kOverheadBytes;
  absl::Status status_;
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

void ParkPush(NamespaceState& state, PushCall call) {
  absl::StatusOr<Reservation> tensor_bytes =
      Reservation::Create(state.memory.host().contributions,
                          UncountedBytes(state.memory, call.request));
  if (!tensor_bytes.ok()) return std::move(call.done)(tensor_bytes.status());
  StartCall(state, std::make_shared<WaitingPush>(state, std::move(call),
                                                 *std::move(tensor_bytes)));
}

}  // namespace tensorkv
