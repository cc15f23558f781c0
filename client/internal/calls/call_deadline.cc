#include "client/internal/calls/call_deadline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"

namespace tensorkv {
namespace {

// gRPC's deadline is this much after the caller's, so that the server's own
// error, which names what was missing, arrives first.
constexpr absl::Duration kGrace = absl::Milliseconds(100);

// A deadline that far would overflow.
constexpr absl::Duration kLongestTimeout = absl::Hours(24 * 365);

std::optional<gpr_timespec> EndOf(absl::Duration timeout) {
  if (timeout > kLongestTimeout) return std::nullopt;
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(
                          absl::ToInt64Microseconds(
                              std::max(timeout, absl::ZeroDuration()) + kGrace),
                          GPR_TIMESPAN));
}

absl::Status CancelledUnderWay() {
  return absl::CancelledError(
      "cancelled by the caller; the call may have been made");
}

}  // namespace

CallDeadline::CallDeadline(absl::Duration timeout,
                           std::shared_ptr<Canceller> canceller)
    : timeout_(timeout),
      canceller_(std::move(canceller)),
      end_(EndOf(timeout)) {}

absl::Status CallDeadline::CheckTimeLeft() const {
  if (canceller_ != nullptr && canceller_->is_cancelled()) {
    return absl::CancelledError("cancelled by the caller");
  }
  if (timeout_ > absl::ZeroDuration()) return absl::OkStatus();
  return absl::DeadlineExceededError("no time was left to send the request");
}

absl::Duration CallDeadline::TimeLeft() const {
  if (!end_) return absl::InfiniteDuration();
  const gpr_timespec left = gpr_time_sub(*end_, gpr_now(GPR_CLOCK_MONOTONIC));
  return std::max(absl::ZeroDuration(),
                  absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec));
}

absl::Status CallDeadline::NoAnswer() const {
  return absl::DeadlineExceededError(absl::StrCat(
      "no answer from the server within ", absl::FormatDuration(timeout_)));
}

absl::Status CallDeadline::InTime(const absl::Status& outcome) const {
  if (outcome.ok()) return outcome;
  if (canceller_ != nullptr && canceller_->is_cancelled()) {
    return CancelledUnderWay();
  }
  const bool is_over =
      end_ && gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), *end_) >= 0;
  return is_over ? NoAnswer() : outcome;
}

void CallDeadline::ApplyTo(grpc::ClientContext& context) const {
  if (end_.has_value()) context.set_deadline(*end_);
}

absl::Status CallDeadline::StatusOf(const grpc::Status& status) const {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
      status.error_message() == "Deadline Exceeded") {
    return NoAnswer();
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED &&
      canceller_ != nullptr && canceller_->is_cancelled()) {
    return CancelledUnderWay();
  }
  if (status.error_code() == grpc::StatusCode::UNKNOWN &&
      status.error_message() == "Stream removed") {
    return absl::UnavailableError("the connection broke: Stream removed");
  }
  return FromGrpcStatus(status);
}

}  // namespace tensorkv
