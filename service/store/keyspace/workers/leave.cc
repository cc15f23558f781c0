// Leave: ends a membership, by its worker's will or as a loss.

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/request_fields.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/workers/membership.h"

namespace tensorkv {
namespace {

absl::Status RemoveWorker(NamespaceState& state, const LeaveRequest& request) {
  const Worker worker = WorkerOf(request.worker());
  std::optional<Step> last_step;
  if (request.has_step()) last_step = request.step();
  Transaction transaction(state);
  RETURN_IF_ERROR(state.workers->CheckJoined(worker, state.Now()));
  if (request.lost()) {
    state.workers->EndLease(worker, state.Now());
    LoseWorkers(transaction, {worker.rank});
  } else {
    state.workers->Leave(worker, last_step);
  }
  OnWorkersGone(transaction, {worker.rank});
  return absl::OkStatus();
}

}  // namespace

void Namespace::Leave(LeaveRequest request, CallContext,
                      ReplyCallback<LeaveReply> done) {
  absl::Status status = RemoveWorker(*state_, request);
  if (!status.ok()) return std::move(done)(std::move(status));
  // A loss has been reported.
  if (!request.lost()) {
    state_->Report(StoreEvent::kWorkerLeft,
                   absl::StrCat("rank ", WorkerOf(request.worker()).rank));
  }
  std::move(done)(LeaveReply());
}

}  // namespace tensorkv
