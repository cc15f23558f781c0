// Calls about checkpoints, and about the cluster itself.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/cluster_connection.h"
#include "client/cluster/merged_replies.h"

namespace tensorkv {
namespace {

// Bounds how long one server may take to write down who is to have the keys,
// before the next is asked.
constexpr absl::Duration kLongestResize = absl::Seconds(2);

}  // namespace

Task<absl::StatusOr<SaveCheckpointReply>> ClusterConnection::Route(
    const SaveCheckpointRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers, co_await servers_.All(limit));
  CO_ASSIGN_OR_RETURN(SaveCheckpointReply total,
                      co_await servers_.At(servers.front(), request, limit));
  SaveCheckpointRequest elsewhere = request;
  elsewhere.set_name(total.checkpoint().name());
  CO_ASSIGN_OR_RETURN(
      const std::vector<SaveCheckpointReply> others,
      co_await servers_.AllOfEach(AfterFirst(servers), elsewhere, limit));
  for (const SaveCheckpointReply& other : others) Add(other, total);
  co_return total;
}

Task<absl::StatusOr<RestoreCheckpointReply>> ClusterConnection::Route(
    const RestoreCheckpointRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers, co_await servers_.All(limit));
  if (!request.as_namespace().empty() && servers.size() > 1) {
    co_return absl::UnimplementedError(
        "as_namespace: expected none with several servers, since the name of a "
        "namespace says which of them has which key");
  }
  // The namespaces are others than before, and the same at all servers.
  RestoreCheckpointRequest named = request;
  if (named.uid() == 0) {
    named.set_uid(static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())));
  }
  CO_ASSIGN_OR_RETURN(std::vector<RestoreCheckpointReply> replies,
                      co_await servers_.AllOfEach(servers, named, limit));
  co_return SumOf(std::move(replies));
}

Task<absl::StatusOr<ListCheckpointsReply>> ClusterConnection::Route(
    const ListCheckpointsRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers, co_await servers_.All(limit));
  CO_ASSIGN_OR_RETURN(std::vector<ListCheckpointsReply> lists,
                      co_await servers_.AllOfEach(servers, request, limit));
  co_return CommonCheckpoints(std::move(lists), request.page_size());
}

Task<absl::StatusOr<DescribeClusterReply>> ClusterConnection::Route(
    const DescribeClusterRequest&, const CallLimit& limit) {
  co_return co_await servers_.Describe(limit);
}

Task<absl::StatusOr<ResizeClusterReply>> ClusterConnection::Route(
    const ResizeClusterRequest& request, const CallLimit& limit) {
  // Any server writes down what is wanted. One that has died counts as live
  // until its lease ends.
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  std::vector<ClusterServer> servers = placement->servers;
  absl::c_stable_partition(
      servers, [](const ClusterServer& server) { return server.live; });
  for (const ClusterServer& server : servers) {
    const CallLimit at_one = limit.Within(kLongestResize);
    const absl::StatusOr<ResizeClusterReply> reply =
        co_await servers_.At(server.name, request, at_one);
    const bool is_answered = !absl::IsUnavailable(reply.status()) &&
                             !absl::IsDeadlineExceeded(reply.status());
    if (is_answered) co_return reply;
  }
  co_return co_await servers_.At(servers.front().name, request, limit);
}

}  // namespace tensorkv
