// The servers of a cluster, each with its connection.

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_SERVERS_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_SERVERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/call_threads.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/placement_source.h"
#include "client/cluster/share_outcomes.h"
#include "client/cluster/waits.h"
#include "client/connection.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"
#include "client/internal/retry/retry_loop.h"

namespace tensorkv {

struct ClusterServersOptions {
  // Some of the cluster's servers, at least one.
  std::vector<std::string> addresses;
  ServerConnector connect;
  // For calls that a server was not there to answer.
  Backoff backoff;
};

// Returns the names of the servers of a placement, in their order.
std::vector<std::string> NamesIn(const ClusterPlacement& placement);

// Makes calls at servers, which go by their names. Connections are made when
// they are first needed; their calls are repeated as RetryingConnection says.
// Thread-safe.
class ClusterServers {
 public:
  explicit ClusterServers(ClusterServersOptions options);

  // Returns the limit of a call that begins now, and whose caller does not
  // wait. What has to block runs on threads of its own.
  CallLimit LimitOfStarted(const CallOptions& options) {
    return CallLimit(options, &threads_);
  }

  // Returns the newest placement that is known; the first time, one that is
  // waited for. Errors: those of PlacementSource.
  Task<absl::StatusOr<PlacementPtr>> Placement(const CallLimit& limit);
  // Asks the servers for a placement that is newer than `used`, and at least of
  // `version`, which some server has named. Returns the newest that is known at
  // the limit or after a few attempts, which may be no newer than `used`.
  Task<absl::StatusOr<PlacementPtr>> NewerThan(const PlacementPtr& used,
                                               uint64_t version,
                                               const CallLimit& limit);
  // Returns what the first server that answers knows, or a newer one. Errors:
  // those of PlacementSource.
  Task<absl::StatusOr<PlacementPtr>> Refresh(const CallLimit& limit) {
    return source_.Refresh(0, limit);
  }
  // Returns what the first server that answers says of the cluster. Errors:
  // those of PlacementSource.
  Task<absl::StatusOr<DescribeClusterReply>> Describe(const CallLimit& limit);

  // Returns all servers, the home of the namespace first, and then in their
  // order. Like All, it waits for a placement where none is known, with the
  // errors of Placement.
  Task<absl::StatusOr<std::vector<std::string>>> HomeFirst(
      const std::string& name_space, const CallLimit& limit);
  // Returns all servers, in their order.
  Task<absl::StatusOr<std::vector<std::string>>> All(const CallLimit& limit);

  // Makes the call at the server of that name, within the limit. Values are
  // received into `destinations`; the limit's own are not used.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> At(
      const std::string& server, const Request& request, const CallLimit& limit,
      absl::Span<const Destination> destinations = {}) {
    CallOptions options = limit.Options();
    options.destinations = destinations;
    return MakeCall(ConnectionTo(server), request, std::move(options),
                    limit.threads);
  }
  // Makes the call at each of the servers, at the same time.
  template <typename Request>
  Task<std::vector<absl::StatusOr<ReplyTo<Request>>>> AtEach(
      absl::Span<const std::string> servers, const Request& request,
      const CallLimit& limit) {
    const auto ask = [&](size_t i, const CallLimit& of_share) {
      return At(servers[i], request, of_share);
    };
    co_return co_await AtOnce<absl::StatusOr<ReplyTo<Request>>>(servers.size(),
                                                                limit, ask);
  }
  // Returns the answer of each of the servers, or the MostActionableError.
  template <typename Request>
  Task<absl::StatusOr<std::vector<ReplyTo<Request>>>> AllOfEach(
      absl::Span<const std::string> servers, const Request& request,
      const CallLimit& limit) {
    auto replies = co_await AtEach(servers, request, limit);
    co_return AllOf(std::move(replies));
  }
  // Makes the call at the home of its namespace, and where that has moved, at
  // the next. Tells `answered_by`, if it is not null, which server has
  // answered.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> AtHome(
      const Request& request, const CallLimit& limit,
      std::string* answered_by = nullptr);
  // Does what the function of that name does, on threads of its own.
  template <typename T>
  Task<std::vector<T>> AtOnce(
      size_t count, const CallLimit& limit,
      absl::FunctionRef<Task<T>(size_t, const CallLimit&)> work) {
    return tensorkv::AtOnce<T>(count, limit, threads_, work);
  }

 private:
  // Bounds how often a call goes to where the home has moved.
  static constexpr int kMostMovesOfHome = 4;

  Connection& ConnectionTo(const std::string& server);

  const ServerConnector connect_;
  const Backoff backoff_;
  const RetryEnvironment environment_ = SystemRetryEnvironment();
  PlacementSource source_;
  CallThreads threads_;

  Mutex mutex_;
  // By name; none is ever removed.
  std::map<std::string, std::unique_ptr<Connection>> connections_
      ABSL_GUARDED_BY(mutex_);
};

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterServers::AtHome(
    const Request& request, const CallLimit& limit, std::string* answered_by) {
  CO_ASSIGN_OR_RETURN(PlacementPtr placement, co_await Placement(limit));
  const std::string& name_space = NamespaceIn(request);
  for (int attempt = 1;; ++attempt) {
    const std::string home =
        placement->servers[OwnerOf(*placement, name_space, "")].name;
    if (answered_by != nullptr) *answered_by = home;
    const absl::StatusOr<ReplyTo<Request>> reply =
        co_await At(home, request, limit);
    const bool has_moved = IsAtWrongServer(reply.status());
    const bool may_have_moved = has_moved || IsOfNoSnapshot(reply.status());
    if (!may_have_moved || attempt == kMostMovesOfHome) co_return reply;
    const uint64_t told = VersionToldBy({reply.status()});
    absl::StatusOr<PlacementPtr> newest = placement;
    if (has_moved) {
      newest = co_await NewerThan(placement, told, limit);
    } else {
      newest = co_await Refresh(limit);
    }
    // Where nobody answers, all stays as it is known.
    if (!newest.ok()) co_return reply;
    const std::string& next =
        (*newest)->servers[OwnerOf(**newest, name_space, "")].name;
    if (!has_moved && next == home) co_return reply;
    placement = *newest;
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_SERVERS_H_
