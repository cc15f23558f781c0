#include "client/cluster/cluster_servers.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/status_macros.h"
#include "client/cluster/placed_server.h"
#include "client/internal/retrying_connection.h"

namespace tensorkv {
namespace {

// A share may wait for what another client does, so shares should not wait for
// threads; they start when they are first needed.
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
      environment_(std::move(options.environment)),
      source_(std::move(options.addresses), connect_),
      threads_(kMaxThreads) {}

CallLimit ClusterServers::LimitOf(const CallOptions& options) const {
  return {environment_.now() + options.timeout, options.canceller,
          options.destinations};
}

CallLimit ClusterServers::WithDeadline(absl::Duration time,
                                       const CallLimit& limit) const {
  CallLimit within = limit;
  within.end = std::min(limit.end, environment_.now() + time);
  return within;
}

CallOptions ClusterServers::OptionsWithin(const CallLimit& limit) const {
  return {.timeout = limit.end - environment_.now(),
          .canceller = limit.canceller};
}

absl::StatusOr<PlacementPtr> ClusterServers::Placement(const CallLimit& limit) {
  PlacementPtr placement;
  const absl::Status status = RetryLoop(
      backoff_, environment_, OptionsWithin(limit).timeout,
      [&](absl::Duration) -> absl::Status {
        ASSIGN_OR_RETURN(placement, source_.Current(OptionsWithin(limit)));
        return absl::OkStatus();
      },
      limit.canceller);
  RETURN_IF_ERROR(status);
  return placement;
}

absl::StatusOr<PlacementPtr> ClusterServers::NewerThan(const PlacementPtr& used,
                                                       uint64_t version,
                                                       const CallLimit& limit) {
  absl::Duration pause = backoff_.initial;
  for (int i = 0;; ++i) {
    ASSIGN_OR_RETURN(PlacementPtr newest,
                     source_.Refresh(std::max(version, used->version + 1),
                                     OptionsWithin(limit)));
    if (newest->version > used->version || i == kMostQuestions ||
        environment_.now() + pause >= limit.end) {
      return newest;
    }
    environment_.sleep(pause, limit.canceller);
    pause = std::min(pause * 2, backoff_.maximum);
  }
}

absl::StatusOr<DescribeClusterReply> ClusterServers::Describe(
    const CallLimit& limit) {
  DescribeClusterReply reply;
  const absl::Status status = RetryLoop(
      backoff_, environment_, OptionsWithin(limit).timeout,
      [&](absl::Duration) -> absl::Status {
        ASSIGN_OR_RETURN(reply, source_.Describe(OptionsWithin(limit)));
        return absl::OkStatus();
      },
      limit.canceller);
  RETURN_IF_ERROR(status);
  return reply;
}

absl::StatusOr<std::string> ClusterServers::HomeOf(absl::string_view name_space,
                                                   const CallLimit& limit) {
  ASSIGN_OR_RETURN(const PlacementPtr placement, Placement(limit));
  return placement->servers[OwnerOf(*placement, name_space, "")].name;
}

absl::StatusOr<std::vector<std::string>> ClusterServers::HomeFirst(
    absl::string_view name_space, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const PlacementPtr placement, Placement(limit));
  const uint32_t home = OwnerOf(*placement, name_space, "");
  std::vector<std::string> names = {placement->servers[home].name};
  for (uint32_t i = 0; i < placement->servers.size(); ++i) {
    if (i != home) names.push_back(placement->servers[i].name);
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> ClusterServers::All(
    const CallLimit& limit) {
  ASSIGN_OR_RETURN(const PlacementPtr placement, Placement(limit));
  return NamesIn(*placement);
}

void ClusterServers::AtOnce(size_t count,
                            absl::FunctionRef<void(size_t)> work) {
  if (count == 0) return;
  StripeTeam team = threads_.Assemble(static_cast<int>(count));
  std::atomic<size_t> next = 0;
  team.Run([&](int) {
    for (size_t i = next++; i < count; i = next++) work(i);
  });
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
