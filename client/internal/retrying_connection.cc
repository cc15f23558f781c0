#include "client/internal/retrying_connection.h"

#include <algorithm>

namespace tensorkv {
namespace {

// Well within the 15 minutes for which servers remember a call.
constexpr absl::Duration kLongestRepetition = absl::Minutes(10);

// Whether the request says of itself that it may come twice.
template <typename Request>
bool MayComeTwice(const Request& request) {
  if constexpr (requires { request.on_existing; }) {
    if (request.on_existing == OnExisting::kKeep) return true;
  }
  if constexpr (requires { request.allow_missing; }) {
    if (request.allow_missing) return true;
  }
  if constexpr (requires { request.call_id; }) {
    return request.call_id.has_value();
  }
  return false;
}

bool MayBeRepeated(const AnyCall& call) {
  return RepeatOf(call.method()) == Repeat::kHarmless ||
         call.Visit([](const auto& request, const auto&) {
           return MayComeTwice(request);
         });
}

}  // namespace

absl::Status RetryingConnection::Attempt(const AnyCall& call,
                                         const CallOptions& options) {
  if (!MayBeRepeated(call)) return inner_->Attempt(call, options);
  const absl::Duration limit = std::min(options.timeout, kLongestRepetition);
  return RetryLoop(backoff_, environment_, limit,
                   [&](absl::Duration time_left) {
                     CallOptions attempt = options;
                     attempt.timeout = options.timeout - (limit - time_left);
                     return inner_->Attempt(call, attempt);
                   });
}

}  // namespace tensorkv
