#include "service/store/keyspace/transaction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/taking.h"
#include "service/store/keyspace/updates/update_runner.h"
#include "service/store/keyspace/watch/watch_calls.h"
#include "service/store/names.h"

namespace tensorkv {

void Transaction::Lock() {
  state_.mutex.lock();
  is_locked_ = true;
}

// Here the told revision may have risen. Whoever must see all effects in their
// order, such as a standby, listens here.
void Transaction::Unlock() {
  if (!is_locked_) return;
  if (state_.named->NextReady(state_.revisions.told()) != nullptr) {
    OpenReadySnapshots(*this);
  }
  ScheduleTelling(state_);
  revision_ = 0;
  state_.keys.ReleaseErased([this](KeyPtr key) { Drop(std::move(key)); });
  is_locked_ = false;
  state_.mutex.unlock();
  for (TaskPool::Task& task : std::exchange(tasks_, {})) {
    state_.Submit(std::move(task));
  }
}

Transaction::~Transaction() {
  Unlock();
  dropped_.clear();
  let_go_ = {};
  if (thread_ == Thread::kOwn) {
    Do(state_, effects_);
    if (work_) UpdateRunner(state_).RunHere(*std::move(work_));
    return;
  }
  if (thread_ == Thread::kCaller) {
    Do(state_, effects_);
    if (work_) UpdateRunner(state_).Run(*std::move(work_));
    return;
  }
  if (HasSlowAnswers()) {
    DoOnPool();
  } else {
    Do(state_, effects_);
  }
  if (work_) UpdateRunner(state_).RunOnPool(*std::move(work_));
}

// Values that are on the host are sent by reference.
bool Transaction::HasSlowAnswers() const {
  for (const WaitingCallPtr& call : effects_.calls) {
    if (call->is_slow_to_send()) return true;
  }
  if (!state_.tensor_placement->copies()) return false;
  return !effects_.calls.empty() ||
         std::any_of(
             effects_.pushes.begin(), effects_.pushes.end(),
             [](const RefPtr<QueuedCall>& call) { return call->is_followed; });
}

void Transaction::DoOnPool() {
  // Shared: whichever way it goes, the callers get their answers.
  const auto shared = std::make_shared<Effects>(std::move(effects_));
  const bool is_submitted = state_.Submit(
      [state = state_.shared_from_this(), shared] { Do(*state, *shared); });
  if (!is_submitted) Do(state_, *shared);
}

void Transaction::Do(NamespaceState& state, Effects& effects) {
  Report(state, effects);
  for (const RefPtr<QueuedCall>& call : effects.pushes) {
    if (call->status.ok()) {
      std::move(call->done)(std::move(call->reply));
    } else {
      std::move(call->done)(call->status);
    }
  }
  for (const WaitingCallPtr& call : effects.calls) {
    if (call->alarm != 0) state.environment.alarms->Cancel(call->alarm);
    call->context.cancellation.reset();
    call->reservation.Clear();
    call->Send();
  }
}

void Transaction::Report(const NamespaceState& state, const Effects& effects) {
  for (const std::string& worker : effects.lost_workers) {
    state.Report(StoreEvent::kWorkerLost, worker);
  }
  if (effects.num_failed_rounds == 0) return;
  state.Report(StoreEvent::kRoundFailed,
               effects.num_failed_rounds == 1
                   ? effects.failed_round
                   : absl::StrCat(effects.failed_round, "; and ",
                                  effects.num_failed_rounds - 1, " more"));
}

void Transaction::ReportFailedRounds(absl::string_view key, Step step,
                                     const RoundFailure& failure,
                                     uint64_t num_rounds) {
  if (effects_.num_failed_rounds == 0 && num_rounds > 0) {
    effects_.failed_round =
        absl::StrCat("round ", step, " of ", Quoted(key), ": ", failure.text);
  }
  effects_.num_failed_rounds += num_rounds;
}

void Transaction::MakeWork() {
  work_.emplace(WorkOfChange{UpdatePass(&state_.device(), &state_.memory), {}});
}

uint64_t Transaction::NextRevision() { return state_.revisions.Next(); }

}  // namespace tensorkv
