#include "service/store/keyspace/waiting_calls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// The call's deadline has come, or its caller has given up.
void GiveUp(NamespaceState& state, const WaitingCallPtr& call,
            absl::StatusCode code) {
  // Whoever it is on, alarms' or gRPC's, the thread serves everybody.
  Transaction transaction(state, Transaction::Thread::kAlarms);
  if (call->is_finished) return;
  const absl::Duration waited = state.Now() - call->started;
  const absl::Status missing = call->Missing();
  const std::string text = absl::StrCat(
      "waited ",
      absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))), ": ",
      missing.message());
  FailCall(transaction, call,
           code == missing.code() ? WithMessage(missing, text)
                                  : absl::Status(code, text));
}

// Has the call end when its time is over. Where somebody asks why it takes
// long, that is recorded before.
void SetAlarm(NamespaceState& state, const WaitingCallPtr& call) {
  const absl::Duration timeout =
      std::min(call->context.timeout, state.environment.max_wait);
  const std::shared_ptr<CallRecord>& record = call->context.caller.record;
  const absl::Duration slow =
      record != nullptr && call->alarm == 0 ? record->slow_call() : timeout;
  call->alarm = state.environment.alarms->Schedule(
      call->started + std::min(slow, timeout),
      [call, is_end = slow >= timeout, weak_state = state.weak_from_this()] {
        const auto state = weak_state.lock();
        if (state == nullptr) return;
        if (is_end) {
          return GiveUp(*state, call, absl::StatusCode::kDeadlineExceeded);
        }
        MutexLock lock(&state->mutex);
        if (call->is_finished) return;
        call->context.caller.record->SetAwaited(call->Missing().message());
        SetAlarm(*state, call);
      });
}

// Errors: ResourceExhausted (no memory for what the call keeps) · the status
// that has ended all waits.
absl::Status Park(NamespaceState& state, const WaitingCallPtr& call) {
  RETURN_IF_ERROR(state.end_of_waits);
  const bool is_first_wait = call->alarm == 0;
  if (is_first_wait) {
    ASSIGN_OR_RETURN(
        call->reservation,
        Reservation::Create(state.memory.metadata(), call->size_bytes()));
  }
  state.waits.Park(call);
  if (is_first_wait) SetAlarm(state, call);
  return absl::OkStatus();
}

// Returns whether the call waits.
bool EndOrPark(Transaction& transaction, const WaitingCallPtr& call) {
  bool waits = !call->CanEnd();
  if (waits) {
    const absl::Status status = Park(transaction.state(), call);
    if (!status.ok()) call->Fail(status);
    waits = status.ok();
  }
  if (!waits) EndCall(transaction, call);
  return waits;
}

}  // namespace

void StartCall(NamespaceState& state, const WaitingCallPtr& call) {
  Transaction transaction(state);
  if (call->is_finished) return;  // one of its keys has gone
  // A copy: once parked, the call belongs to whoever ends it.
  const std::shared_ptr<Cancellation> cancellation = call->context.cancellation;
  const uint64_t ticket =
      cancellation == nullptr ? 0 : cancellation->TakeTicket();
  const bool waits = EndOrPark(transaction, call);
  transaction.Unlock();
  if (!waits || cancellation == nullptr) return;
  cancellation->OnCancel(ticket, [call, weak_state = state.weak_from_this()] {
    if (const auto state = weak_state.lock()) {
      GiveUp(*state, call, absl::StatusCode::kCancelled);
    }
  });
}

void EndCall(Transaction& transaction, const WaitingCallPtr& call) {
  NamespaceState& state = transaction.state();
  call->is_finished = true;
  call->Finish();
  if (call->alarm != 0) state.waits.CountEnd(*call, state.Now());
  transaction.Send(call);
}

void Wake(Transaction& transaction, absl::string_view topic) {
  for (const WaitingCallPtr& call : transaction.state().waits.Take(topic)) {
    EndOrPark(transaction, call);
  }
}

void WakeAll(Transaction& transaction) {
  for (const WaitingCallPtr& call : transaction.state().waits.TakeAll()) {
    EndOrPark(transaction, call);
  }
}

void FailCalls(Transaction& transaction,
               absl::FunctionRef<bool(const WaitingCall&)> must_end,
               const absl::Status& status) {
  Waits::Calls ending;
  transaction.state().waits.ForEach([&](const WaitingCallPtr& call) {
    if (must_end(*call)) ending.push_back(call);
  });
  for (const WaitingCallPtr& call : ending) {
    FailCall(transaction, call, status);
  }
}

void FailCall(Transaction& transaction, const WaitingCallPtr& call,
              const absl::Status& status) {
  transaction.state().waits.Remove(call);
  call->Fail(status);
  EndCall(transaction, call);
}

absl::Status CheckIsWanted(const NamespaceState& state,
                           const CallContext& context) {
  if (context.cancellation && context.cancellation->is_cancelled()) {
    return absl::CancelledError("the caller has given up");
  }
  MutexLock lock(&state.mutex);
  return state.end_of_waits;
}

void Namespace::InterruptWaits(const absl::Status& status) {
  Transaction transaction(*state_);
  FailCalls(
      transaction, [](const WaitingCall&) { return true; }, status);
  transaction.Unlock();
  state_->watch_calls->End(status, /*for_ever=*/false);
}

void Namespace::EndWaits(const absl::Status& status) {
  {
    MutexLock lock(&state_->mutex);
    state_->end_of_waits = status;
  }
  InterruptWaits(status);
  state_->watch_calls->End(status, /*for_ever=*/true);
  state_->calls->EndWaits(status);
}

void Namespace::End(const absl::Status& status) {
  {
    MutexLock lock(&state_->mutex);
    state_->gone = status;
  }
  EndWaits(status);
  // Now that nobody waits for its rounds.
  if (state_->config.mirrored) {
    state_->environment.exchange->Forget(state_->name);
  }
}

}  // namespace tensorkv
