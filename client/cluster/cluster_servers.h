// The servers of a cluster, each with its connection.

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_SERVERS_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_SERVERS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/cluster/placement_source.h"
#include "client/connection.h"
#include "client/internal/retry_loop.h"
#include "client/internal/stripe_threads.h"

namespace tensorkv {

struct ClusterServersOptions {
  // Some of the cluster's servers, at least one.
  std::vector<std::string> addresses;
  ServerConnector connect;
  // For calls that a server was not there to answer.
  Backoff backoff;
  RetryEnvironment environment;
};

// Returns the names of the servers of a placement, in their order.
std::vector<std::string> NamesIn(const ClusterPlacement& placement);

// Bounds a call that is made of many others, and says where its values may be
// received.
struct CallLimit {
  absl::Duration end;  // by the environment's clock
  std::shared_ptr<Canceller> canceller;
  absl::Span<const Destination> destinations;
};

// Makes calls at servers, which go by their names. Connections are made when
// they are first needed; their calls are repeated as RetryingConnection says.
// Thread-safe.
class ClusterServers {
 public:
  explicit ClusterServers(ClusterServersOptions options);

  // Returns the limit of a call that begins now.
  CallLimit LimitOf(const CallOptions& options) const;
  // Returns the limit, but with an end that is at most `time` from now.
  CallLimit WithDeadline(absl::Duration time, const CallLimit& limit) const;

  // Returns the newest placement that is known; the first time, one that is
  // waited for. Errors: those of PlacementSource.
  absl::StatusOr<PlacementPtr> Placement(const CallLimit& limit);
  // Asks the servers for a placement that is newer than `used`, and at least of
  // `version`, which some server has named. Returns the newest that is known at
  // the limit or after a few attempts, which may be no newer than `used`.
  absl::StatusOr<PlacementPtr> NewerThan(const PlacementPtr& used,
                                         uint64_t version,
                                         const CallLimit& limit);
  // Returns what the first server that answers says of the cluster. Errors:
  // those of PlacementSource.
  absl::StatusOr<DescribeClusterReply> Describe(const CallLimit& limit);

  // Returns the name of the server that is the home of the namespace. Like
  // HomeFirst and All, it waits for a placement where none is known, with the
  // errors of Placement.
  absl::StatusOr<std::string> HomeOf(absl::string_view name_space,
                                     const CallLimit& limit);
  // Returns all servers, the home of the namespace first, and then in their
  // order.
  absl::StatusOr<std::vector<std::string>> HomeFirst(
      absl::string_view name_space, const CallLimit& limit);
  // Returns all servers, in their order.
  absl::StatusOr<std::vector<std::string>> All(const CallLimit& limit);

  // Makes the call at the server of that name, within the limit. Values are
  // received into `destinations`; the limit's own are not used.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> At(
      const std::string& server, const Request& request, const CallLimit& limit,
      absl::Span<const Destination> destinations = {}) {
    CallOptions options = OptionsWithin(limit);
    options.destinations = destinations;
    return ConnectionTo(server).Call(request, options);
  }
  // Makes the call at each of the servers, at the same time.
  template <typename Request>
  std::vector<absl::StatusOr<ReplyTo<Request>>> AtEach(
      absl::Span<const std::string> servers, const Request& request,
      const CallLimit& limit) {
    std::vector<absl::StatusOr<ReplyTo<Request>>> replies(servers.size());
    AtOnce(servers.size(),
           [&](size_t i) { replies[i] = At(servers[i], request, limit); });
    return replies;
  }
  // Calls work(0) to work(count - 1) at the same time, as far as there are
  // threads, and otherwise in that order.
  void AtOnce(size_t count, absl::FunctionRef<void(size_t)> work);

 private:
  // Returns options of a call that ends with the limit, without destinations.
  CallOptions OptionsWithin(const CallLimit& limit) const;
  Connection& ConnectionTo(const std::string& server);

  const ServerConnector connect_;
  const Backoff backoff_;
  const RetryEnvironment environment_;
  PlacementSource source_;
  StripeThreads threads_;

  Mutex mutex_;
  // By name; none is ever removed.
  std::map<std::string, std::unique_ptr<Connection>> connections_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_SERVERS_H_
