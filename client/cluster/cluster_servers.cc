#include "client/cluster/cluster_servers.h"

#include <algorithm>
#include <optional>

#include "client/cluster/placed_server.h"
#include "client/internal/retry/retrying_connection.h"

namespace tensorkv {
namespace {

// They start when they are first needed.
constexpr int kMaxThreads = 1024;

// Bounds how often the cluster is asked for a newer placement that somebody
// knows.
constexpr int kMostQuestions = 4;

}  // namespace

std::vector<std::string> NamesIn(const ClusterPlacement& placement) {
  std::vector<std::string> names;
  for (const ClusterServer& server : placement.servers) {
    names.push_back(server.name);
  }
  return names;
}

ClusterServers::ClusterServers(ClusterServersOptions options)
    : connect_(std::move(options.connect)),
      backoff_(options.backoff),
      source_(std::move(options.addresses), connect_),
      threads_(kMaxThreads) {}

Task<absl::StatusOr<PlacementPtr>> ClusterServers::Placement(
    const CallLimit& limit) {
  if (PlacementPtr known = source_.Known()) co_return known;
  CO_RETURN_IF_ERROR(co_await Describe(limit));
  co_return source_.Known();
}

Task<absl::StatusOr<PlacementPtr>> ClusterServers::NewerThan(
    const PlacementPtr& used, uint64_t version, const CallLimit& limit) {
  absl::Duration pause = backoff_.initial;
  for (int i = 0;; ++i) {
    CO_ASSIGN_OR_RETURN(
        PlacementPtr newest,
        co_await source_.Refresh(std::max(version, used->version + 1), limit));
    if (newest->version > used->version || i == kMostQuestions ||
        pause >= limit.TimeLeft()) {
      co_return newest;
    }
    co_await Pause(environment_, pause, limit.canceller, limit.threads);
    pause = std::min(pause * 2, backoff_.maximum);
  }
}

Task<absl::StatusOr<DescribeClusterReply>> ClusterServers::Describe(
    const CallLimit& limit) {
  RetryCourse course(backoff_, environment_, limit.TimeLeft());
  for (;;) {
    absl::StatusOr<DescribeClusterReply> reply =
        co_await source_.Describe(limit);
    if (reply.ok()) co_return reply;
    absl::Status status = reply.status();
    const std::optional<absl::Duration> pause = course.PauseAfter(status);
    if (!pause) co_return status;
    co_await Pause(environment_, *pause, limit.canceller, limit.threads);
    if (limit.TimeLeft() <= absl::ZeroDuration()) co_return status;
  }
}

Task<absl::StatusOr<std::vector<std::string>>> ClusterServers::HomeFirst(
    const std::string& name_space, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement, co_await Placement(limit));
  std::vector<std::string> names = NamesIn(*placement);
  const auto home = names.begin() + OwnerOf(*placement, name_space, "");
  std::rotate(names.begin(), home, home + 1);
  co_return names;
}

Task<absl::StatusOr<std::vector<std::string>>> ClusterServers::All(
    const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement, co_await Placement(limit));
  co_return NamesIn(*placement);
}

Connection& ClusterServers::ConnectionTo(const std::string& server) {
  MutexLock lock(&mutex_);
  std::unique_ptr<Connection>& connection = connections_[server];
  if (connection == nullptr) {
    connection = std::make_unique<RetryingConnection>(
        std::make_unique<PlacedServer>(server, source_, connect_), backoff_,
        environment_);
  }
  return *connection;
}

}  // namespace tensorkv
