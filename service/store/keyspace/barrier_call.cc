#include "service/store/keyspace/barrier_call.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// One Barrier from its call to its answer. Guarded by the namespace's mutex.
class BarrierCall final : public WaitingCall {
 public:
  BarrierCall(NamespaceState& state, BarrierRequest request,
              CallContext context, absl::Duration started,
              ReplyCallback<BarrierReply> done)
      : WaitingCall(std::move(context), started),
        state_(state),
        request_(std::move(request)),
        done_(std::move(done)) {
    topic = BarrierTopic(request_.barrier);
    reason = WaitReason::kBarrier;
  }

  bool CanEnd() override {
    answer_ = state_.workers->Check(request_.worker, state_.Now());
    return !answer_.ok();
  }
  absl::Status Missing() const override;
  void Fail(const absl::Status& status) override { answer_ = status; }
  void Send() override {
    absl::StatusOr<BarrierReply> reply = BarrierReply();
    if (!answer_.ok()) reply = answer_;
    SendOnce(std::move(done_), std::move(reply));
  }

  uint32_t rank() const { return request_.worker.rank; }

 private:
  NamespaceState& state_;
  const BarrierRequest request_;
  ReplyCallback<BarrierReply> done_;
  absl::Status answer_;
};

// Who does not wait at a barrier, among those whom it needs; `arrived` does.
std::vector<uint32_t> MissingAt(const NamespaceState& state,
                                absl::string_view topic,
                                std::optional<uint32_t> arrived) {
  std::vector<bool> is_there(state.workers->end_rank());
  for (const WaitingCallPtr& call : state.waits.At(topic)) {
    const uint32_t rank = static_cast<const BarrierCall&>(*call).rank();
    if (rank < is_there.size()) is_there[rank] = true;
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < is_there.size(); ++rank) {
    if (!is_there[rank] && rank != arrived &&
        state.workers->Needs(rank, UINT64_MAX)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

absl::Status BarrierCall::Missing() const {
  return state_.workers->StillMissing(
      absl::StrCat("barrier ", Quoted(request_.barrier)),
      MissingAt(state_, topic, request_.worker.rank), state_.Now());
}

// Ends a barrier if nobody is missing.
void EndBarrier(Transaction& transaction, absl::string_view topic) {
  Waits& waits = transaction.state().waits;
  if (waits.At(topic).empty() ||
      !MissingAt(transaction.state(), topic, std::nullopt).empty()) {
    return;
  }
  for (const WaitingCallPtr& call : waits.Take(topic)) {
    EndCall(transaction, call);
  }
}

absl::Status CheckArrival(NamespaceState& state,
                          const BarrierRequest& request) {
  RETURN_IF_ERROR(CheckBarrierName(request.barrier));
  MutexLock lock(&state.mutex);
  RETURN_IF_ERROR(state.workers->Check(request.worker, state.Now()));
  state.workers->Renew(request.worker, state.Now());
  state.workers->Reach(request.worker, 0);
  return absl::OkStatus();
}

}  // namespace

void Barrier(NamespaceState& state, BarrierRequest request, CallContext context,
             ReplyCallback<BarrierReply> done) {
  absl::Status status = CheckArrival(state, request);
  if (!status.ok()) return std::move(done)(std::move(status));
  const auto call = std::make_shared<BarrierCall>(state, std::move(request),
                                                  std::move(context),
                                                  state.Now(), std::move(done));
  const std::string topic = call->topic;
  StartCall(state, call);
  Transaction transaction(state);
  EndBarrier(transaction, topic);
}

void EndBarriers(Transaction& transaction) {
  absl::flat_hash_set<std::string> topics;
  transaction.state().waits.ForEach([&](const WaitingCallPtr& call) {
    if (call->reason == WaitReason::kBarrier) topics.insert(call->topic);
  });
  for (const std::string& topic : topics) EndBarrier(transaction, topic);
}

void FailBarriers(Transaction& transaction, const absl::Status& status) {
  FailCalls(
      transaction,
      [](const WaitingCall& call) {
        return call.reason == WaitReason::kBarrier;
      },
      status);
}

}  // namespace tensorkv
