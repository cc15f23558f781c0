#include "client/cluster/merged_watch.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "contract/duration.h"
#include "tensorkv/v1/watch.pb.h"

namespace tensorkv {
namespace {

// How long a server is asked, at least, if nothing has changed.
constexpr absl::Duration kRound = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<MergedWatch> MergedWatch::Create(
    const WatchRequest& request, std::vector<std::string> servers) {
  v1::WatchTokens tokens;
  if (!tokens.ParseFromString(request.token())) {
    return absl::InvalidArgumentError(
        "token: expected one that a watch of a cluster has given");
  }
  MergedWatch watch;
  watch.is_first_ = request.token().empty();
  watch.interval_ = kRound;
  if (request.has_interval()) {
    ASSIGN_OR_RETURN(watch.interval_,
                     DecodeDuration("interval", request.interval()));
  }
  for (const std::string& server : servers) {
    WatchRequest& its = watch.requests_.emplace_back(request);
    const auto token = tokens.tokens().find(server);
    const bool is_known = token != tokens.tokens().end();
    its.set_token(is_known ? token->second : "");
    if (!is_known && !watch.is_first_) its.set_initial(true);
  }
  watch.servers_ = std::move(servers);
  return watch;
}

void MergedWatch::BeginRound(absl::Duration left) {
  // Half of it is spent on gathering.
  const absl::Duration round = std::max(kRound, 2 * interval_);
  for (WatchRequest& request : requests_) {
    EncodeDuration(std::max(absl::ZeroDuration(), std::min(left, round)),
                   request.mutable_max_wait());
  }
}

bool MergedWatch::Take(std::vector<WatchReply> replies) {
  for (size_t i = 0; i < replies.size(); ++i) {
    WatchReply& reply = replies[i];
    requests_[i].set_token(reply.token());
    reply_.mutable_changes()->MergeFrom(reply.changes());
    reply_.set_has_more(reply_.has_more() || reply.has_more());
    reply_.set_initial(reply_.initial() || reply.initial());
    if (replies.size() == 1) reply_.set_revision(reply.revision());
  }
  return is_first_ || reply_.has_more() || !reply_.changes().empty();
}

WatchReply MergedWatch::Reply() {
  v1::WatchTokens tokens;
  for (size_t i = 0; i < servers_.size(); ++i) {
    (*tokens.mutable_tokens())[servers_[i]] = requests_[i].token();
  }
  reply_.set_token(tokens.SerializeAsString());
  return std::move(reply_);
}

}  // namespace tensorkv
