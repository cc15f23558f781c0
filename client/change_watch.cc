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

// One call waits for so long, or for two intervals: what is on the way may cut
// off those that wait for long.
constexpr absl::Duration kLongestWait = absl::Seconds(20);
// Its answer may take so much longer.
constexpr absl::Duration kAnswerTime = absl::Seconds(10);

}  // namespace

ChangeWatch::ChangeWatch(Client& client, WatchOptions options)
    : client_(client),
      longest_wait_(std::max(kLongestWait, 2 * options.interval)),
      token_(std::move(options.token)) {
  if (options.prefix && options.key) {
    status_ = absl::InvalidArgumentError(
        "watch: expected a key or a prefix, got both");
  }
  if (options.prefix) request_.set_prefix(*std::move(options.prefix));
  if (options.key) request_.set_key(*std::move(options.key));
  if (options.series) request_.set_series(*std::move(options.series));
  if (!request_.has_prefix() && !request_.has_key() && !request_.has_series()) {
    request_.set_prefix("");
  }
  request_.set_initial(options.initial);
  request_.set_token(token_);
  EncodeDuration(options.interval, request_.mutable_interval());
}

absl::Status ChangeWatch::Begin() {
  RETURN_IF_ERROR(status_);
  if (!request_.token().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Ask(absl::ZeroDuration()));
  if (told_.empty()) token_ = request_.token();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Change>> ChangeWatch::Next(
    absl::Duration timeout) {
  const absl::Duration end = SteadyNow() + timeout;
  RETURN_IF_ERROR(Begin());
  absl::Duration left = timeout;
  while (told_.empty()) {
    RETURN_IF_ERROR(Ask(std::clamp(left, absl::ZeroDuration(), longest_wait_)));
    left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) break;
  }
  token_ = request_.token();
  return std::exchange(told_, {});
}

absl::Status ChangeWatch::Follow(
    absl::FunctionRef<bool(const std::vector<v1::Change>&)> told) {
  for (;;) {
    ASSIGN_OR_RETURN(const std::vector<v1::Change> changes,
                     Next(longest_wait_));
    if (!changes.empty() && !told(changes)) return absl::OkStatus();
  }
}

absl::Status ChangeWatch::Ask(absl::Duration max_wait) {
  EncodeDuration(max_wait, request_.mutable_max_wait());
  ASSIGN_OR_RETURN(WatchReply reply,
                   client_.WithTimeout(max_wait + kAnswerTime).Call(request_));
  request_.set_token(reply.token());
  absl::c_move(*reply.mutable_changes(), std::back_inserter(told_));
  return absl::OkStatus();
}

}  // namespace tensorkv
