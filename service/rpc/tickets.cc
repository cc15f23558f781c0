#include "service/rpc/tickets.h"

#include <openssl/rand.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "contract/stripe_range.h"
#include "service/security/caller_quotas.h"

namespace tensorkv {
namespace {

// So many bits nobody guesses.
constexpr size_t kIdBytes = 16;

absl::Status TooMany(absl::string_view whose, size_t limit) {
  return WithRetryDelay(
      WithReason(absl::ResourceExhaustedError(absl::StrCat(
                     "tickets: expected at most ", limit, whose, " at once")),
                 Reason::kLimitReached, {{"limit", limit}}),
      kQuotaRetryDelay);
}

absl::Status NoTicket() {
  return WithReason(
      absl::UnavailableError("ticket: expected one that has not ended, of this "
                             "caller: make the call again that has given it"),
      Reason::kNoTicket);
}

absl::StatusOr<std::string> NewId() {
  std::string id(kIdBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), kIdBytes) == 1) {
    return id;
  }
  return absl::InternalError("ticket: no random bytes");
}

}  // namespace

absl::Status WithoutTicket(const absl::Status& refusal) {
  absl::Status status = WithReason(
      absl::UnavailableError(absl::StrCat(
          "the push has been made; for its values: ", refusal.message())),
      Reason::kNoTicket);
  return WithRetryDelay(std::move(status), kQuotaRetryDelay);
}

Tickets::Tickets(absl::Duration stream_timeout, Alarms* alarms)
    : stream_timeout_(stream_timeout),
      state_(std::make_shared<State>(alarms)) {}

size_t Tickets::num_open() const {
  MutexLock lock(&state_->mutex);
  return state_->held.size();
}

absl::StatusOr<StripedCall::Reply> Tickets::Add(const std::string& caller,
                                                PullReply reply) {
  ASSIGN_OR_RETURN(const uint64_t size_bytes,
                   TotalBytes(TensorSizes(reply.values)));
  ASSIGN_OR_RETURN(std::string id, NewId());
  reply.ticket = {.id = id, .size_bytes = size_bytes};
  auto held = std::make_shared<const StreamedReply>(std::move(reply));
  MutexLock lock(&state_->mutex);
  if (state_->held.size() >= kMostInAll) return TooMany("", kMostInAll);
  size_t& of_caller = state_->of_caller[caller];
  if (of_caller >= kMostOfCaller) {
    return TooMany(" of a caller", kMostOfCaller);
  }
  ++of_caller;
  state_->held[id] = {.caller = caller, .reply = held};
  SetAlarm(id, kTimeToTake);
  return held;
}

void Tickets::SetAlarm(const std::string& id, absl::Duration time_left) {
  Alarms::Id& alarm = state_->held[id].alarm;
  if (alarm != 0) state_->alarms.Cancel(alarm);
  alarm =
      state_->alarms.Schedule(state_->alarms.Now() + time_left,
                              [weak_state = std::weak_ptr<State>(state_), id] {
                                if (const auto state = weak_state.lock())
                                  state->Expire(id);
                              });
}

absl::Status Tickets::Mark(const Stripe& stripe, HeldValues& held) {
  if (held.taken.empty()) held.taken.resize(stripe.count);
  if (stripe.count != held.taken.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stripe ", stripe.index, ": expected one of ", held.taken.size(),
        " as its ticket has, got one of ", stripe.count));
  }
  if (held.taken[stripe.index]) {
    return WithReason(absl::AlreadyExistsError(absl::StrCat(
                          "stripe ", stripe.index, " of ", stripe.count,
                          " of this ticket has come")),
                      Reason::kStripeExists);
  }
  held.taken[stripe.index] = true;
  ++held.num_taken;
  return absl::OkStatus();
}

absl::StatusOr<Tickets::TakenStripe> Tickets::Take(const std::string& caller,
                                                   absl::string_view id,
                                                   const Stripe& stripe) {
  RETURN_IF_ERROR(CheckStripe(stripe));
  MutexLock lock(&state_->mutex);
  const auto found = state_->held.find(id);
  if (found == state_->held.end() || found->second.caller != caller) {
    return NoTicket();
  }
  HeldValues& held = found->second;
  RETURN_IF_ERROR(Mark(stripe, held));
  if (held.num_taken == held.taken.size()) {
    state_->alarms.Cancel(std::exchange(held.alarm, 0));
  } else if (held.num_taken == 1) {
    SetAlarm(found->first, stream_timeout_);
  }
  return TakenStripe(state_, std::string(id), held.reply);
}

StripedCall::Reply Tickets::State::Remove(const std::string& id) {
  const auto found = held.find(id);
  if (found == held.end()) return nullptr;
  HeldValues ended = std::move(found->second);
  held.erase(found);
  if (ended.alarm != 0) alarms.Cancel(ended.alarm);
  const auto caller = of_caller.find(ended.caller);
  if (--caller->second == 0) of_caller.erase(caller);
  return std::move(ended.reply);
}

void Tickets::State::End(const std::string& id) {
  StripedCall::Reply ended;
  MutexLock lock(&mutex);
  ended = Remove(id);
}

void Tickets::State::Expire(const std::string& id) {
  StripedCall::Reply ended;
  MutexLock lock(&mutex);
  const auto found = held.find(id);
  // The last stripe may have come meanwhile.
  if (found == held.end() || found->second.alarm == 0) return;
  found->second.alarm = 0;
  ended = Remove(id);
  ++num_expired;
}

void Tickets::State::CountSent(const std::string& id) {
  StripedCall::Reply ended;
  MutexLock lock(&mutex);
  const auto found = held.find(id);
  if (found == held.end()) return;
  if (++found->second.num_sent == found->second.taken.size()) {
    ended = Remove(id);
  }
}

void Tickets::TakenStripe::SetSent() {
  is_sent_ = true;
  state_->CountSent(id_);
}

void Tickets::TakenStripe::End() {
  if (state_ != nullptr && !is_sent_) state_->End(id_);
}

}  // namespace tensorkv
