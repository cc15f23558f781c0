#include "client/cluster/merged_watch.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/placed_server.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "tensorkv/v1/watch.pb.h"

namespace tensorkv {
namespace {

// Says that something has happened to a server, for which nobody knows which
// keys were deleted.
absl::Status BeginAnew(absl::string_view server, absl::string_view what,
                       absl::string_view name_space) {
  return WithReason(absl::AbortedError(absl::StrCat("watch: server ", server,
                                                    " ", what, ": begin anew")),
                    Reason::kRevisionCompacted, {{"namespace", name_space}});
}

bool HasNotAnswered(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

absl::StatusOr<MergedWatch> MergedWatch::Create(
    const WatchRequest& request, std::vector<std::string> servers) {
  v1::WatchTokens tokens;
  if (!tokens.ParseFromString(request.token())) {
    return absl::InvalidArgumentError(
        "token: expected one that a watch of a cluster has given");
  }
  MergedWatch watch;
  watch.begins_ = request.token().empty();
  watch.is_mirrored_ = tokens.is_mirrored();
  if (watch.is_mirrored_) servers.resize(1);
  for (const auto& [server, token] : tokens.tokens()) {
    if (absl::c_linear_search(servers, server)) continue;
    return BeginAnew(server, "has no keys any more", request.namespace_());
  }
  for (const std::string& server : servers) {
    WatchRequest& its = watch.requests_.emplace_back(request);
    const auto token = tokens.tokens().find(server);
    const bool is_known = token != tokens.tokens().end();
    if (!is_known && !watch.begins_) {
      return BeginAnew(server, "has got keys since", request.namespace_());
    }
    its.set_token(is_known ? token->second : "");
  }
  watch.servers_ = std::move(servers);
  return watch;
}

std::vector<size_t> MergedWatch::From(size_t first) const {
  std::vector<size_t> indices(servers_.size() - first);
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

void MergedWatch::SetMaxWait(absl::Duration max_wait) {
  max_wait = std::max(absl::ZeroDuration(), max_wait);
  for (WatchRequest& request : requests_) {
    request.clear_max_wait();
    if (max_wait == absl::InfiniteDuration()) continue;
    EncodeDuration(max_wait, request.mutable_max_wait());
  }
}

bool MergedWatch::IsAnswer(size_t server,
                           const absl::StatusOr<WatchReply>& reply) {
  if (reply.ok()) return reply->has_more() || !reply->changes().empty();
  const bool has_none_yet = absl::IsNotFound(reply.status()) && server != 0;
  return !absl::IsCancelled(reply.status()) && !has_none_yet;
}

absl::StatusOr<std::vector<size_t>> MergedWatch::Take(
    const std::vector<size_t>& asked,
    std::vector<absl::StatusOr<WatchReply>> replies) {
  std::vector<size_t> ended;
  std::vector<absl::Status> errors;
  for (size_t i = 0; i < asked.size(); ++i) {
    const absl::Status status = replies[i].status();
    const WatchRequest& request = requests_[asked[i]];
    if (status.ok() && request.token().empty() && !begins_) {
      errors.push_back(BeginAnew(servers_[asked[i]], "has the namespace since",
                                 request.namespace_()));
    } else if (status.ok()) {
      Add(asked[i], *std::move(replies[i]));
    } else if (IsOfRemovedServer(status)) {
      errors.push_back(BeginAnew(servers_[asked[i]], "has left the cluster",
                                 request.namespace_()));
    } else if (absl::IsCancelled(status)) {
      ended.push_back(asked[i]);
    } else if (!absl::IsNotFound(status) || asked[i] == 0) {
      errors.push_back(status);
    }
  }
  // What others have told is not lost for one that does not answer.
  if (HasAnswer() && !begins_) std::erase_if(errors, HasNotAnswered);
  RETURN_IF_ERROR(MostActionableError(errors));
  return ended;
}

void MergedWatch::Add(size_t server, WatchReply reply) {
  requests_[server].set_token(reply.token());
  if (server == 0) is_mirrored_ = reply.is_mirrored();
  for (v1::Change& change : *reply.mutable_changes()) Add(std::move(change));
  reply_.set_has_more(reply_.has_more() || reply.has_more());
  reply_.set_initial(reply_.initial() || reply.initial());
  if (is_mirrored_ || servers_.size() == 1) {
    reply_.set_revision(reply.revision());
  }
}

void MergedWatch::Add(v1::Change change) {
  const auto [told, is_new] = by_name_.try_emplace(
      std::pair(change.key(), change.series()), reply_.changes_size());
  if (is_new) {
    *reply_.add_changes() = std::move(change);
    return;
  }
  v1::Change& before = *reply_.mutable_changes(told->second);
  // Numbers of snapshots rise, wherever the home is.
  const auto time_of = [](const v1::Change& each) {
    return std::tuple(each.number(), each.revision(), each.version());
  };
  if (time_of(before) < time_of(change)) before = std::move(change);
}

WatchReply MergedWatch::Reply() {
  v1::WatchTokens tokens;
  tokens.set_is_mirrored(is_mirrored_);
  const size_t num_servers = is_mirrored_ ? 1 : servers_.size();
  for (size_t i = 0; i < num_servers; ++i) {
    (*tokens.mutable_tokens())[servers_[i]] = requests_[i].token();
  }
  reply_.set_is_mirrored(is_mirrored_);
  reply_.set_token(tokens.SerializeAsString());
  return std::move(reply_);
}

}  // namespace tensorkv
