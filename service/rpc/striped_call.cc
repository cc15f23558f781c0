#include "service/rpc/striped_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace tensorkv {

StripedCall::StripedCall(uint32_t num_stripes, absl::Duration join_timeout,
                         Alarms* alarms)
    : num_stripes_(num_stripes),
      join_timeout_(join_timeout),
      alarms_(*alarms),
      cancellation_(std::make_shared<Cancellation>()),
      stripes_(num_stripes) {}

StripedCall::~StripedCall() {
  if (alarm_ != 0) alarms_.Cancel(alarm_);
}

absl::Status StripedCall::Join(const Stripe& stripe, absl::string_view manifest,
                               Preparation prepare, Listener listener) {
  MutexLock lock(&mutex_);
  if (end_) return *end_;
  if (num_joined_ == 0) {
    if (absl::Status status = Prepare(manifest, std::move(prepare));
        !status.ok()) {
      end_ = status;
      return status;
    }
  }
  RETURN_IF_ERROR(CheckJoin(stripe, manifest));
  stripes_[stripe.index] = {.has_joined = true,
                            .listener = std::move(listener)};
  ++num_joined_;
  ++num_listening_;
  return absl::OkStatus();
}

absl::Status StripedCall::Prepare(absl::string_view manifest,
                                  Preparation prepare) {
  ASSIGN_OR_RETURN(prepared_, std::move(prepare)());
  manifest_ = std::string(manifest);
  tensors_ = TensorsOf(prepared_->request);
  if (num_stripes_ > 1) ScheduleJoinTimeout();
  return absl::OkStatus();
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
    return absl::AlreadyExistsError(
        absl::StrCat("stripe ", stripe.index, " of ", num_stripes_,
                     " of this call is there already"));
  }
  return absl::OkStatus();
}

void StripedCall::ScheduleJoinTimeout() {
  alarm_ = alarms_.Schedule(alarms_.Now() + join_timeout_,
                            [weak_this = weak_from_this()] {
                              if (const auto self = weak_this.lock())
                                self->OnJoinTimeout();
                            });
}

void StripedCall::OnJoinTimeout() {
  absl::Status status;
  std::vector<StripeState> stripes;
  {
    MutexLock lock(&mutex_);
    if (end_ || num_joined_ == num_stripes_) return;
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < num_stripes_; ++i) {
      if (!stripes_[i].has_joined) missing.push_back(i);
    }
    status = absl::DeadlineExceededError(absl::StrCat(
        "stripes ", absl::StrJoin(missing, ", "), " of ", num_stripes_,
        " did not come within ", absl::FormatDuration(join_timeout_)));
    stripes = End(status);
  }
  Tell(std::move(stripes), [&status](uint32_t) { return status; });
}

void StripedCall::Complete(uint32_t index, absl::Duration timeout) {
  std::optional<Prepared> prepared;
  {
    MutexLock lock(&mutex_);
    if (end_ || std::exchange(stripes_[index].is_complete, true)) return;
    if (++num_complete_ == num_stripes_) prepared.swap(prepared_);
  }
  if (prepared) Execute(*std::move(prepared), timeout);
}

void StripedCall::Execute(Prepared prepared, absl::Duration timeout) {
  CallContext context{.timeout = timeout, .cancellation = cancellation_};
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
  std::vector<StripeState> stripes;
  {
    MutexLock lock(&mutex_);
    if (end_) return;
    stripes =
        End(shared.ok() ? absl::AlreadyExistsError("this call has been made")
                        : shared.status());
  }
  Tell(std::move(stripes), [&shared](uint32_t) { return shared; });
}

void StripedCall::Fail(uint32_t index, const absl::Status& status) {
  const absl::Status others = absl::AbortedError(absl::StrCat(
      "stripe ", index, " of ", num_stripes_, " failed: ", status.message()));
  std::vector<StripeState> stripes;
  bool is_left_alone = false;
  {
    MutexLock lock(&mutex_);
    if (end_) return;
    if (num_complete_ < num_stripes_) {
      stripes = End(others);
    } else {
      // It is being made, and may take effect: the others hear whether.
      stripes.resize(num_stripes_);
      std::swap(stripes[index], stripes_[index]);
      is_left_alone = stripes[index].listener && --num_listening_ == 0;
    }
  }
  Tell(std::move(stripes),
       [&](uint32_t i) { return i == index ? status : others; });
  if (is_left_alone) cancellation_->Cancel();
}

std::vector<StripedCall::StripeState> StripedCall::End(absl::Status end) {
  end_ = std::move(end);
  // The tensors stay until the last stripe lets go of this call: one may be
  // receiving into them.
  std::vector<StripeState> stripes(num_stripes_);
  stripes.swap(stripes_);
  return stripes;
}

void StripedCall::Tell(
    std::vector<StripeState> stripes,
    absl::FunctionRef<absl::StatusOr<Reply>(uint32_t)> outcome_of) {
  for (uint32_t i = 0; i < stripes.size(); ++i) {
    if (stripes[i].listener) std::move(stripes[i].listener)(outcome_of(i));
  }
}

}  // namespace tensorkv
