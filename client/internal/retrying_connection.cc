#include "client/internal/retrying_connection.h"

#include <algorithm>
#include <optional>
#include <utility>

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
  return CallIdIn(request).has_value();
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
  return RetryLoop(
      backoff_, environment_, limit,
      [&](absl::Duration time_left) {
        CallOptions attempt = options;
        attempt.timeout = options.timeout - (limit - time_left);
        return inner_->Attempt(call, attempt);
      },
      options.canceller);
}

// A call that nobody waits for. It owns itself until it has ended.
class RetryingConnection::Repeated
    : public std::enable_shared_from_this<Repeated> {
 public:
  Repeated(const RetryingConnection& connection, const AnyCall& call,
           const CallOptions& options, CallThreads& threads, Done done)
      : connection_(connection),
        call_(call),
        options_(options),
        limit_(std::min(options.timeout, kLongestRepetition)),
        threads_(threads),
        done_(std::move(done)),
        course_(connection.backoff_, connection.environment_, limit_) {}

  void Attempt(absl::Duration time_left) {
    CallOptions attempt = options_;
    attempt.timeout = options_.timeout - (limit_ - time_left);
    connection_.inner_->Start(call_, attempt, threads_,
                              [self = shared_from_this()](absl::Status status) {
                                self->OnEnd(std::move(status));
                              });
  }

  absl::Duration limit() const { return limit_; }

 private:
  void OnEnd(absl::Status status) {
    const std::optional<absl::Duration> pause = course_.PauseAfter(status);
    if (!pause) return std::move(done_)(std::move(status));
    last_ = std::move(status);
    connection_.environment_.run_after(
        *pause, options_.canceller,
        [self = shared_from_this()] { self->AttemptAgain(); });
  }

  void AttemptAgain() {
    const absl::Duration time_left = course_.TimeLeft();
    if (time_left > absl::ZeroDuration()) return Attempt(time_left);
    std::move(done_)(std::move(last_));
  }

  const RetryingConnection& connection_;
  const AnyCall call_;
  const CallOptions options_;
  const absl::Duration limit_;
  CallThreads& threads_;
  Done done_;
  RetryCourse course_;
  // The status of the latest attempt.
  absl::Status last_;
};

void RetryingConnection::Start(const AnyCall& call, const CallOptions& options,
                               CallThreads& threads, Done done) {
  if (!MayBeRepeated(call)) {
    return inner_->Start(call, options, threads, std::move(done));
  }
  const auto repeated = std::make_shared<Repeated>(*this, call, options,
                                                   threads, std::move(done));
  repeated->Attempt(repeated->limit());
}

}  // namespace tensorkv
