#include "service/store/keyspace/rules/long_lock.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {

void LongLock::Holder::Release() {
  if (state_ != nullptr) std::exchange(state_, nullptr)->Release();
}

LongLock::LongLock(absl::string_view name_space, absl::string_view holders)
    : name_space_(name_space), holders_(holders) {}

std::shared_ptr<LongLock::Waiter> LongLock::State::TakeOrWait(bool gives_up) {
  if (!is_held) {
    is_held = true;
    return nullptr;
  }
  auto waiter = std::make_shared<Waiter>();
  waiter->gives_up = gives_up;
  waiters.push_back(waiter);
  return waiter;
}

bool LongLock::State::Await(const Waiter& waiter) {
  while (!waiter.has_lock && waiter.end.ok()) changed.Wait(&mutex);
  return waiter.has_lock;
}

void LongLock::State::GiveUp(const std::shared_ptr<Waiter>& waiter,
                             const absl::Status& status) {
  MutexLock lock(&mutex);
  const auto found = std::find(waiters.begin(), waiters.end(), waiter);
  if (found == waiters.end()) return;
  waiters.erase(found);
  waiter->end = status;
  changed.SignalAll();
}

void LongLock::State::EndWaits(const absl::Status& status) {
  std::erase_if(waiters, [&status](const std::shared_ptr<Waiter>& waiter) {
    if (waiter->gives_up) waiter->end = status;
    return waiter->gives_up;
  });
  changed.SignalAll();
}

void LongLock::State::Release() {
  MutexLock lock(&mutex);
  is_held = !waiters.empty();
  if (!is_held) return;
  waiters.front()->has_lock = true;
  waiters.pop_front();
  changed.SignalAll();
}

LongLock::Holder LongLock::Acquire() {
  MutexLock lock(&state_->mutex);
  if (const auto waiter = state_->TakeOrWait(/*gives_up=*/false)) {
    state_->Await(*waiter);
  }
  return Holder(state_);
}

std::optional<LongLock::Holder> LongLock::TryAcquire() {
  MutexLock lock(&state_->mutex);
  if (state_->is_held) return std::nullopt;
  state_->is_held = true;
  return Holder(state_);
}

absl::Status LongLock::Ended(absl::StatusCode code,
                             absl::Duration waited) const {
  const absl::Status status(
      code, absl::StrCat("namespace ", Quoted(name_space_), ": waited ",
                         absl::FormatDuration(
                             absl::Trunc(waited, absl::Milliseconds(1))),
                         " for the end of ", holders_));
  if (code != absl::StatusCode::kDeadlineExceeded) return status;
  return WithReason(status, Reason::kWaitEnded, {{"namespace", name_space_}});
}

absl::StatusOr<LongLock::Holder> LongLock::Acquire(const CallContext& context,
                                                   Alarms& alarms) {
  const absl::Duration started = alarms.Now();
  const auto& cancellation = context.cancellation;
  const uint64_t ticket = cancellation ? cancellation->TakeTicket() : 0;
  std::shared_ptr<Waiter> waiter;
  {
    MutexLock lock(&state_->mutex);
    RETURN_IF_ERROR(state_->end_of_waits);
    if (state_->is_held && context.timeout <= absl::ZeroDuration()) {
      return Ended(absl::StatusCode::kDeadlineExceeded, absl::ZeroDuration());
    }
    waiter = state_->TakeOrWait(/*gives_up=*/true);
    if (waiter == nullptr) return Holder(state_);
  }
  // Both may come at any time, and later than the end of the wait.
  const auto give_up = [state = state_, waiter](absl::StatusCode code) {
    state->GiveUp(waiter, absl::Status(code, ""));
  };
  std::optional<Alarms::Id> alarm;
  if (context.timeout < absl::InfiniteDuration()) {
    alarm = alarms.Schedule(started + context.timeout, [give_up] {
      give_up(absl::StatusCode::kDeadlineExceeded);
    });
  }
  if (cancellation != nullptr) {
    cancellation->OnCancel(
        ticket, [give_up] { give_up(absl::StatusCode::kCancelled); });
  }
  bool has_lock = false;
  absl::Status end;
  {
    MutexLock lock(&state_->mutex);
    has_lock = state_->Await(*waiter);
    end = waiter->end;
  }
  if (alarm) alarms.Cancel(*alarm);
  if (has_lock) return Holder(state_);
  return end.message().empty() ? Ended(end.code(), alarms.Now() - started)
                               : end;
}

void LongLock::EndWaits(const absl::Status& status) {
  MutexLock lock(&state_->mutex);
  state_->end_of_waits = status;
  state_->EndWaits(status);
}

void LongLock::InterruptWaits(const absl::Status& status) {
  MutexLock lock(&state_->mutex);
  state_->EndWaits(status);
}

}  // namespace tensorkv
