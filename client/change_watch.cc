#include "client/change_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"
#include "client/internal/steady_now.h"
#include "contract/duration.h"

namespace tensorkv {
namespace {

// How long one call waits: what is on the way may cut off those that wait for
// long.
constexpr absl::Duration kLongestWait = absl::Seconds(20);
// How much longer than that its answer may take.
constexpr absl::Duration kAnswerTime = absl::Seconds(10);

}  // namespace

ChangeWatch::ChangeWatch(Client& client, WatchOptions options)
    : client_(client) {
  if (options.prefix) request_.set_prefix(*std::move(options.prefix));
  if (options.key) request_.set_key(*std::move(options.key));
  if (options.series) request_.set_series(*std::move(options.series));
  if (!request_.has_prefix() && !request_.has_key() && !request_.has_series()) {
    request_.set_prefix("");
  }
  request_.set_initial(options.initial);
  request_.set_token(std::move(options.token));
  EncodeDuration(options.interval, request_.mutable_interval());
}

absl::Status ChangeWatch::Begin() {
  if (!token().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(told_, Ask(absl::ZeroDuration()));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Change>> ChangeWatch::Next(
    absl::Duration timeout) {
  const absl::Duration end = SteadyNow() + timeout;
  RETURN_IF_ERROR(Begin());
  std::vector<v1::Change> changes = std::exchange(told_, {});
  while (changes.empty()) {
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) break;
    ASSIGN_OR_RETURN(changes, Ask(std::min(left, kLongestWait)));
  }
  return changes;
}

absl::Status ChangeWatch::Follow(
    absl::FunctionRef<bool(const std::vector<v1::Change>&)> told) {
  for (;;) {
    ASSIGN_OR_RETURN(const std::vector<v1::Change> changes, Next(kLongestWait));
    if (!changes.empty() && !told(changes)) return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<v1::Change>> ChangeWatch::Ask(
    absl::Duration max_wait) {
  EncodeDuration(max_wait, request_.mutable_max_wait());
  ASSIGN_OR_RETURN(WatchReply reply,
                   client_.WithTimeout(max_wait + kAnswerTime).Call(request_));
  request_.set_token(reply.token());
  std::vector<v1::Change> changes;
  absl::c_move(*reply.mutable_changes(), std::back_inserter(changes));
  return changes;
}

}  // namespace tensorkv
