#include "client/internal/retry/retrying_connection.h"

#include <algorithm>
#include <optional>

namespace tensorkv {
namespace {

// Well within the 15 minutes for which servers remember a call.
constexpr absl::Duration kLongestRepetition = absl::Minutes(10);

// Returns whether the request says of itself that it may come twice.
template <typename Request>
bool MayComeTwice(const Request& request) {
  if constexpr (requires { request.on_existing; }) {
    if (request.on_existing == OnExisting::kKeep) return true;
  } else if constexpr (requires { request.on_existing(); }) {
    if (request.on_existing() == v1::ON_EXISTING_KEEP) return true;
  }
  if constexpr (requires { request.allow_missing(); }) {
    if (request.allow_missing()) return true;
  }
  // What concerns shares of snapshots names them.
  if constexpr (requires { request.has_share(); }) {
    if (request.uid() != 0) return true;
  } else if constexpr (requires { request.uids(); }) {
    if (!request.uids().empty()) return true;
  }
  return CallIdIn(request).has_value();
}

bool MayBeRepeated(const AnyCall& call) {
  return RepeatOf(call.method()) == Repeat::kHarmless ||
         call.Visit([](const auto& request, const auto&) {
           return MayComeTwice(request);
         });
}

}  // namespace

Task<absl::Status> RetryingConnection::Make(AnyCall call, CallOptions options,
                                            CallThreads* threads) {
  const absl::Duration limit = std::min(options.timeout, kLongestRepetition);
  RetryCourse course(backoff_, environment_, limit);
  CallOptions of_attempt = options;
  for (;;) {
    absl::Status status = co_await MadeCall(*inner_, call, of_attempt, threads);
    if (status.ok() || !MayBeRepeated(call)) co_return status;
    const std::optional<absl::Duration> pause = course.PauseAfter(status);
    if (!pause) co_return status;
    co_await Pause(environment_, *pause, options.canceller, threads);
    const absl::Duration time_left = course.TimeLeft();
    if (time_left <= absl::ZeroDuration()) co_return status;
    of_attempt.timeout = options.timeout - (limit - time_left);
  }
}

}  // namespace tensorkv
