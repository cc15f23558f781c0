#include "service/rpc/striped_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// A slow peer is found that much later at most.
constexpr absl::Duration kMinRateCheckInterval = absl::Seconds(1);

absl::Status TooSlow(const FairRate& rate, uint64_t received,
                     absl::Duration taken) {
  return WithReason(
      absl::DeadlineExceededError(absl::StrCat(
          "stream: expected ", rate.total_bytes(), " bytes at ",
          rate.bytes_per_second(), " a second or more, got ", received, " in ",
          absl::FormatDuration(absl::Trunc(taken, absl::Milliseconds(1))))),
      Reason::kPeerTooSlow);
}

}  // namespace

StripedCall::StripedCall(uint32_t num_stripes, absl::Duration stream_timeout,
                         Alarms* alarms)
    : num_stripes_(num_stripes),
      stream_timeout_(stream_timeout),
      alarms_(*alarms),
      cancellation_(std::make_shared<Cancellation>()),
      stripes_(num_stripes),
      rate_(0, stream_timeout) {}

StripedCall::~StripedCall() { CancelAlarms(); }

void StripedCall::CancelAlarms() {
  for (Alarms::Id* const alarm : {&join_alarm_, &rate_alarm_}) {
    const Alarms::Id id = std::exchange(*alarm, 0);
    if (id != 0) alarms_.Cancel(id);
  }
}

absl::Status StripedCall::Join(const Stripe& stripe, absl::string_view manifest,
                               Preparation prepare, Listener listener,
                               UploadQueue* uploads) {
  bool is_first = false;
  {
    MutexLock lock(&mutex_);
    if (end_) return *end_;
    is_first = num_joined_ == 0;
    if (is_first) manifest_ = std::string(manifest);
    RETURN_IF_ERROR(CheckJoin(stripe, manifest));
    stripes_[stripe.index] = {.has_joined = true,
                              .listener = std::move(listener)};
    ++num_joined_;
    ++num_listening_;
  }
  if (!is_first) return absl::OkStatus();
  // It takes time to get memory; other stripes that come meanwhile wait in
  // waiting_, on no thread.
  absl::StatusOr<PreparedCall> prepared = std::move(prepare)();
  if (prepared.ok() && prepared->allocate) {
    if (uploads != nullptr) {
      AwaitPlace(stripe.index, *std::move(prepared), uploads);
      return absl::OkStatus();
    }
    absl::Status allocated = std::move(prepared->allocate)(prepared->request);
    if (!allocated.ok()) prepared = std::move(allocated);
  }
  return SetPrepared(stripe.index, std::move(prepared), {}, /*joins=*/true);
}

void StripedCall::AwaitPlace(uint32_t index, PreparedCall prepared,
                             UploadQueue* uploads) {
  {
    MutexLock lock(&mutex_);
    if (end_) return;
    prepared_ = std::move(prepared);
  }
  const uint64_t entry = uploads->Enter(
      [weak_this = weak_from_this(), index](UploadQueue::Place place) {
        const auto self = weak_this.lock();
        if (self != nullptr) self->TakePlace(index, std::move(place));
      });
  if (entry == 0) return;
  {
    MutexLock lock(&mutex_);
    uploads_ = uploads;
    entry_ = entry;
    if (!end_) return;
  }
  uploads->Withdraw(entry);
}

void StripedCall::TakePlace(uint32_t index, UploadQueue::Place place) {
  std::optional<PreparedCall> prepared;
  {
    MutexLock lock(&mutex_);
    prepared.swap(prepared_);
  }
  if (!prepared) return;  // it has ended
  absl::Status status = std::move(prepared->allocate)(prepared->request);
  absl::StatusOr<PreparedCall> allocated = *std::move(prepared);
  if (!status.ok()) allocated = std::move(status);
  SetPrepared(index, std::move(allocated), std::move(place), /*joins=*/false)
      .IgnoreError();  // the listeners have heard
}

absl::Status StripedCall::SetPrepared(uint32_t index,
                                      absl::StatusOr<PreparedCall> prepared,
                                      UploadQueue::Place place, bool joins) {
  absl::Status status = prepared.status();
  Ended ended;
  {
    MutexLock lock(&mutex_);
    if (end_) {
      status = *end_;  // by another stripe
    } else if (status.ok()) {
      is_prepared_ = true;
      ended.waiting.swap(waiting_);
      std::swap(place_, place);
      BeginToReceive(*std::move(prepared));
    } else {
      // It hears of the end from Join.
      if (joins) stripes_[index].listener = nullptr;
      ended = End(status);
    }
  }
  Tell(std::move(ended), [&status](uint32_t) { return status; });
  return status;
}

void StripedCall::BeginToReceive(PreparedCall prepared) {
  prepared_ = std::move(prepared);
  tensors_ = TensorsOf(prepared_->request);
  // Ids of rows came with the manifest, and are held as long.
  uint64_t bytes = RowIdBytes(prepared_->request);
  AddReceived(bytes);
  for (const Tensor* tensor : tensors_) bytes += tensor->size_bytes();
  rate_ = FairRate(bytes, stream_timeout_);
  prepared_at_ = alarms_.Now();
  if (num_stripes_ > 1) ScheduleJoinTimeout();
  if (rate_.binds()) ScheduleRateCheck();
}

void StripedCall::WhenPrepared(absl::AnyInvocable<void() &&> ready) {
  {
    MutexLock lock(&mutex_);
    if (!is_prepared_ && !end_) {
      waiting_.push_back(std::move(ready));
      return;
    }
  }
  std::move(ready)();
}

absl::Status StripedCall::CheckJoin(const Stripe& stripe,
                                    absl::string_view manifest) const {
  if (stripe.count != num_stripes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stripe ", stripe.index, ": expected one of ", num_stripes_,
        " as its call has, got one of ", stripe.count));
  }
  if (manifest != manifest_) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe ", stripe.index,
                     ": expected the manifest of the call's other stripes, "
                     "got another one"));
  }
  if (stripes_[stripe.index].has_joined) {
    return WithReason(absl::AlreadyExistsError(absl::StrCat(
                          "stripe ", stripe.index, " of ", num_stripes_,
                          " of this call is there already")),
                      Reason::kStripeExists);
  }
  return absl::OkStatus();
}

void StripedCall::ScheduleJoinTimeout() {
  join_alarm_ = alarms_.Schedule(prepared_at_ + stream_timeout_,
                                 [weak_this = weak_from_this()] {
                                   if (const auto self = weak_this.lock())
                                     self->OnJoinTimeout();
                                 });
}

void StripedCall::OnJoinTimeout() {
  absl::Status status;
  Ended ended;
  {
    MutexLock lock(&mutex_);
    if (end_ || num_joined_ == num_stripes_) return;
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < num_stripes_; ++i) {
      if (!stripes_[i].has_joined) missing.push_back(i);
    }
    status = WithReason(
        absl::DeadlineExceededError(absl::StrCat(
            "stripes ", absl::StrJoin(missing, ", "), " of ", num_stripes_,
            " did not come within ", absl::FormatDuration(stream_timeout_))),
        Reason::kPeerTooSlow);
    ended = End(status);
  }
  Tell(std::move(ended), [&status](uint32_t) { return status; });
}

void StripedCall::ScheduleRateCheck() {
  const absl::Duration due = prepared_at_ + rate_.TimeFor(received_bytes_);
  rate_alarm_ =
      alarms_.Schedule(std::max(due, alarms_.Now() + kMinRateCheckInterval),
                       [weak_this = weak_from_this()] {
                         if (const auto self = weak_this.lock()) {
                           self->CheckRate();
                         }
                       });
}

void StripedCall::CheckRate() {
  absl::Status status;
  Ended ended;
  {
    MutexLock lock(&mutex_);
    const uint64_t received = received_bytes_;
    if (end_ || received >= rate_.total_bytes()) return;
    const absl::Duration taken = alarms_.Now() - prepared_at_;
    if (taken < rate_.TimeFor(received)) return ScheduleRateCheck();
    status = TooSlow(rate_, received, taken);
    ended = End(status);
  }
  Tell(std::move(ended), [&status](uint32_t) { return status; });
}

void StripedCall::Complete(uint32_t index, absl::Duration timeout,
                           std::shared_ptr<const void> share) {
  std::optional<PreparedCall> prepared;
  {
    UploadQueue::Place place;
    MutexLock lock(&mutex_);
    if (end_ || std::exchange(stripes_[index].is_complete, true)) return;
    if (++num_complete_ < num_stripes_) return;
    prepared.swap(prepared_);
    std::swap(place, place_);
  }
  if (!prepared) return;
  Execute(*std::move(prepared),
          {.timeout = timeout, .cancellation = cancellation_, .share = share});
}

void StripedCall::Execute(PreparedCall prepared, CallContext context) {
  std::move(prepared.execute)(
      std::move(prepared.request), std::move(context),
      [self = shared_from_this()](absl::StatusOr<StreamedReply> reply) mutable {
        // The store may keep this callback as long as the cancellation, which
        // the call owns: the call must not stay in it.
        const std::shared_ptr<StripedCall> call = std::move(self);
        call->EndWith(std::move(reply));
      });
}

void StripedCall::EndWith(absl::StatusOr<StreamedReply> reply) {
  absl::StatusOr<Reply> shared = nullptr;
  if (reply.ok()) {
    shared = std::make_shared<const StreamedReply>(*std::move(reply));
  } else {
    shared = reply.status();
  }
  Ended ended;
  {
    MutexLock lock(&mutex_);
    if (end_) return;
    ended = End(shared.ok() ? WithReason(absl::AlreadyExistsError(
                                             "this call has been made"),
                                         Reason::kStripeExists)
                            : shared.status());
  }
  Tell(std::move(ended), [&shared](uint32_t) { return shared; });
}

void StripedCall::Fail(uint32_t index, const absl::Status& status) {
  const absl::Status others = WithReason(
      absl::AbortedError(absl::StrCat("stripe ", index, " of ", num_stripes_,
                                      " failed: ", status.message())),
      Reason::kStripeFailed);
  Ended ended;
  bool is_left_alone = false;
  {
    MutexLock lock(&mutex_);
    if (end_) return;
    if (num_complete_ < num_stripes_) {
      ended = End(others);
    } else {
      // It is being made, and may take effect: the others hear whether.
      ended.stripes.resize(num_stripes_);
      std::swap(ended.stripes[index], stripes_[index]);
      is_left_alone = ended.stripes[index].listener && --num_listening_ == 0;
    }
  }
  Tell(std::move(ended),
       [&](uint32_t i) { return i == index ? status : others; });
  if (is_left_alone) cancellation_->Cancel();
}

StripedCall::Ended StripedCall::End(absl::Status end) {
  end_ = std::move(end);
  CancelAlarms();
  // The tensors stay until the last stripe lets go of this call: one may be
  // receiving into them.
  Ended ended = {.stripes = std::vector<StripeState>(num_stripes_)};
  ended.stripes.swap(stripes_);
  ended.waiting.swap(waiting_);
  // What has no memory yet is let go; what has may be received into.
  if (!is_prepared_) ended.prepared.swap(prepared_);
  std::swap(ended.place, place_);
  std::swap(ended.uploads, uploads_);
  std::swap(ended.entry, entry_);
  return ended;
}

void StripedCall::Tell(
    Ended ended,
    absl::FunctionRef<absl::StatusOr<Reply>(uint32_t)> outcome_of) {
  for (uint32_t i = 0; i < ended.stripes.size(); ++i) {
    StripeState& stripe = ended.stripes[i];
    if (stripe.listener) std::move(stripe.listener)(outcome_of(i));
  }
  if (ended.uploads != nullptr) ended.uploads->Withdraw(ended.entry);
  for (auto& ready : ended.waiting) std::move(ready)();
}

}  // namespace tensorkv
