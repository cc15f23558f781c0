// Barrier: a worker waits for the others.

#include "service/store/keyspace/workers/barrier.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "contract/request_fields.h"
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
        worker_(WorkerOf(request.worker())),
        barrier_(std::move(*request.mutable_barrier())),
        done_(std::move(done)) {
    topic = BarrierTopic(barrier_);
    reason = WaitReason::kBarrier;
  }

  bool CanEnd() override {
    answer_ = state_.workers->Check(worker_, state_.Now());
    if (answer_.ok()) answer_ = CheckNobodyLeft();
    // It is for the home of the namespace.
    if (const auto fence = state_.Fence(); fence && answer_.ok()) {
      answer_ = fence->CheckRead(state_.name, "");
    }
    return !answer_.ok();
  }
  absl::Status Missing() const override;
  void Fail(const absl::Status& status) override { answer_ = status; }
  void Send() override {
    absl::StatusOr<BarrierReply> reply = BarrierReply();
    if (!answer_.ok()) reply = answer_;
    SendOnce(std::move(done_), std::move(reply));
  }

  uint32_t rank() const { return worker_.rank; }

 private:
  // Errors: Aborted (WORKER_LEFT).
  absl::Status CheckNobodyLeft() const;

  NamespaceState& state_;
  const Worker worker_;
  const std::string barrier_;
  ReplyCallback<BarrierReply> done_;
  absl::Status answer_;
};

// Returns which ranks do not wait at a barrier, among those that it needs;
// `arrived` do.
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
        state.workers->NeedsAtBarrier(rank)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

absl::Status BarrierCall::Missing() const {
  return state_.workers->MissingError(
      absl::StrCat("barrier ", Quoted(barrier_)),
      MissingAt(state_, topic, worker_.rank), state_.Now());
}

absl::Status BarrierCall::CheckNobodyLeft() const {
  const WorkerGroup& workers = *state_.workers;
  if (!workers.LacksThoseWhoLeft()) return absl::OkStatus();
  std::vector<uint32_t> left;
  for (uint32_t each = 0; each < workers.end_rank(); ++each) {
    if (workers.HasLeftSince(each, rank())) left.push_back(each);
  }
  if (left.empty()) return absl::OkStatus();
  return WithReason(
      workers.LeftError(absl::StrCat("barrier ", Quoted(barrier_)), left),
      Reason::kWorkerLeft, {{"ranks", absl::StrJoin(left, ",")}});
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
  RETURN_IF_ERROR(CheckBarrierName(request.barrier()));
  const Worker worker = WorkerOf(request.worker());
  MutexLock lock(&state.mutex);
  RETURN_IF_ERROR(state.workers->Check(worker, state.Now()));
  state.workers->Renew(worker, state.Now());
  state.workers->Reach(worker, 0);
  return absl::OkStatus();
}

}  // namespace

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

void Namespace::Barrier(BarrierRequest request, CallContext context,
                        ReplyCallback<BarrierReply> done) {
  absl::Status status = CheckArrival(*state_, request);
  if (!status.ok()) return std::move(done)(std::move(status));
  const auto call = std::make_shared<BarrierCall>(
      *state_, std::move(request), std::move(context), state_->Now(),
      std::move(done));
  const std::string topic = call->topic;
  StartCall(*state_, call);
  Transaction transaction(*state_);
  EndBarrier(transaction, topic);
}

}  // namespace tensorkv
