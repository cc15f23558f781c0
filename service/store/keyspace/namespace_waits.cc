#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/namespace.h"

namespace tensorkv {

void Namespace::Start(const WaitingCallPtr& call) {
  // A copy: once parked, the call belongs to whoever ends it.
  std::shared_ptr<Cancellation> cancellation;
  uint64_t ticket = 0;
  Replies replies;
  bool waits = false;
  {
    MutexLock lock(&mutex_);
    if (call->is_finished) return;  // one of its keys has gone
    cancellation = call->context.cancellation;
    if (cancellation != nullptr) ticket = cancellation->TakeTicket();
    waits = EndOrPark(call, replies);
  }
  if (waits && cancellation != nullptr) {
    cancellation->OnCancel(ticket, [call, weak_this = weak_from_this()] {
      if (const auto self = weak_this.lock()) {
        self->EndWait(call, absl::StatusCode::kCancelled);
      }
    });
  }
  Send(std::move(replies));
}

bool Namespace::EndOrPark(const WaitingCallPtr& call, Replies& replies) {
  bool waits = !call->CanEnd();
  if (waits) {
    if (const absl::Status status = Park(call); !status.ok()) {
      call->Fail(status);
      waits = false;
    }
  }
  if (!waits) Finish(call, replies);
  return waits;
}

absl::Status Namespace::Park(const WaitingCallPtr& call) {
  RETURN_IF_ERROR(no_waits_);
  const bool is_first_wait = call->alarm == 0;
  if (is_first_wait) {
    ASSIGN_OR_RETURN(
        call->reservation,
        Reservation::Create(memory_.metadata(), call->size_bytes()));
  }
  waits_.Park(call);
  if (!is_first_wait) return absl::OkStatus();
  const absl::Duration timeout =
      std::min(call->context.timeout, environment_.max_wait);
  call->alarm = environment_.alarms->Schedule(
      call->started + timeout, [call, weak_this = weak_from_this()] {
        if (const auto self = weak_this.lock()) {
          self->EndWait(call, absl::StatusCode::kDeadlineExceeded);
        }
      });
  return absl::OkStatus();
}

void Namespace::Finish(const WaitingCallPtr& call, Replies& replies) {
  call->is_finished = true;
  call->Finish();
  if (call->alarm != 0) waits_.CountEnd(*call, environment_.alarms->Now());
  replies.calls.push_back(call);
}

void Namespace::Wake(absl::string_view topic, Replies& replies) {
  for (const WaitingCallPtr& call : waits_.Take(topic)) {
    EndOrPark(call, replies);
  }
}

void Namespace::WakeAll(Replies& replies) {
  for (const WaitingCallPtr& call : waits_.TakeAll()) EndOrPark(call, replies);
}

void Namespace::FailWaits(absl::FunctionRef<bool(const WaitingCall&)> must_end,
                          const absl::Status& status, Replies& replies) {
  Waits::Calls ending;
  waits_.ForEach([&](const WaitingCallPtr& call) {
    if (must_end(*call)) ending.push_back(call);
  });
  for (const WaitingCallPtr& call : ending) {
    waits_.Remove(call);
    call->Fail(status);
    Finish(call, replies);
  }
}

void Namespace::EndWait(const WaitingCallPtr& call, absl::StatusCode code) {
  Replies replies;
  {
    MutexLock lock(&mutex_);
    if (call->is_finished) return;
    waits_.Remove(call);
    const absl::Duration waited = environment_.alarms->Now() - call->started;
    const absl::Status missing = call->Missing();
    const std::string text = absl::StrCat(
        "waited ",
        absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))), ": ",
        missing.message());
    call->Fail(code == missing.code() ? WithMessage(missing, text)
                                      : absl::Status(code, text));
    Finish(call, replies);
  }
  Send(std::move(replies));
}

void Namespace::EndWaits(const absl::Status& status) {
  Replies replies;
  {
    MutexLock lock(&mutex_);
    no_waits_ = status;
    FailWaits([](const WaitingCall&) { return true; }, status, replies);
  }
  Send(std::move(replies));
  calls_->EndWaits(status);
}

void Namespace::Send(Replies replies) {
  // Before anybody hears of it.
  replies.dropped_rounds.clear();
  replies.dropped_updates.clear();
  Report(replies);
  for (const RefPtr<PushCall>& call : replies.pushes) {
    if (call->status.ok()) {
      std::move(call->done)(std::move(call->reply));
    } else {
      std::move(call->done)(call->status);
    }
  }
  for (const WaitingCallPtr& call : replies.calls) {
    if (call->alarm != 0) environment_.alarms->Cancel(call->alarm);
    call->context.cancellation.reset();
    call->reservation.Clear();
    call->Send();
  }
}

void Namespace::Report(const Replies& replies) const {
  if (environment_.observer == nullptr) return;
  for (const std::string& worker : replies.lost_workers) {
    environment_.observer->Happened(StoreEvent::kWorkerLost, name_, worker);
  }
  if (replies.num_failed_rounds == 0) return;
  environment_.observer->Happened(
      StoreEvent::kRoundFailed, name_,
      replies.num_failed_rounds == 1
          ? replies.failed_round
          : absl::StrCat(replies.failed_round, "; and ",
                         replies.num_failed_rounds - 1, " more"));
}

}  // namespace tensorkv
