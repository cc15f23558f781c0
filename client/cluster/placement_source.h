// Tells a client of a cluster which server owns what.

#ifndef TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_
#define TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/internal/server_incarnation.h"
#include "contract/placement.h"

namespace tensorkv {

using PlacementPtr = std::shared_ptr<const ClusterPlacement>;

// Opens a connection to an address, which makes each call once. `known` keeps
// what the connection learns of the server.
using ServerConnector =
    std::function<absl::StatusOr<std::unique_ptr<Connection>>(
        const std::string& address, std::shared_ptr<ServerIncarnation> known)>;

// Keeps the newest placement that any server has told, and the connections over
// which it asks. One question is under way at a time, whoever needs its answer:
// where a server is down, every call at it asks. Thread-safe.
//
// A server that is in no cluster has a placement of one server that owns
// everything, with an empty name and the address at which it was asked.
class PlacementSource {
 public:
  // REQUIRES: some addresses, of servers of one cluster.
  PlacementSource(std::vector<std::string> addresses, ServerConnector connect)
      : addresses_(std::move(addresses)), connect_(std::move(connect)) {}

  // Returns the known placement, or the one that a server tells where nothing
  // is known yet. Errors: those of Refresh.
  absl::StatusOr<PlacementPtr> Current(const CallOptions& options);

  // Asks one server after the other, those that live first, until one knows a
  // placement of `version` or a newer one. Returns the newest that is known
  // then, which may be older. Takes the answer to a question of another caller
  // that has begun later than this call.
  // Errors: Unavailable (no server answers; none knows a placement) · Internal
  // (a placement that makes no sense) · Cancelled · DeadlineExceeded (no time
  // is left) · the error of the last server that has answered.
  absl::StatusOr<PlacementPtr> Refresh(uint64_t version,
                                       const CallOptions& options);

  // Returns the answer of the first server that answers. Errors: those of
  // Refresh.
  absl::StatusOr<DescribeClusterReply> Describe(const CallOptions& options) {
    return AskTogether(0, options);
  }

  // Returns how many callers wait for the question of another one to end.
  size_t num_waiting() const;

 private:
  // A question that has ended.
  struct Question {
    // Questions count from 1, in the order in which they begin.
    uint64_t number = 0;
    uint64_t version = 0;
    absl::StatusOr<DescribeClusterReply> answer = DescribeClusterReply();
    // Its caller's time was over, or somebody has cancelled the call.
    bool was_interrupted = false;
  };

  PlacementPtr Known() const;
  // Keeps `placement` unless a newer one is known.
  void Learn(ClusterPlacement placement);
  // Returns the addresses to ask, in their order: those of live servers by the
  // known placement, then those given to the constructor.
  std::vector<std::string> Addresses() const;
  // Returns what AskOneByOne returns to this caller, or to another one that has
  // asked meanwhile.
  absl::StatusOr<DescribeClusterReply> AskTogether(uint64_t version,
                                                   const CallOptions& options);
  // Waits until no question is under way. Returns whether this caller is to
  // ask, or false if it is to take the answer of `last_`, a question that has
  // begun meanwhile.
  // Errors: Cancelled · DeadlineExceeded.
  absl::StatusOr<bool> WaitToAsk(uint64_t version, absl::Duration end,
                                 const std::atomic<bool>& is_cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks one address after the other until a server knows a placement of
  // `version`. Returns the answer of that server, or of the last that has
  // answered. Learns the placements that they tell.
  absl::StatusOr<DescribeClusterReply> AskOneByOne(uint64_t version,
                                                   const CallOptions& options);
  // Asks one server, and learns the placement that it tells.
  absl::StatusOr<DescribeClusterReply> Ask(const std::string& address,
                                           const CallOptions& options);
  absl::StatusOr<std::shared_ptr<Connection>> ConnectionTo(
      const std::string& address);

  const std::vector<std::string> addresses_;
  const ServerConnector connect_;

  mutable Mutex mutex_;
  PlacementPtr known_ ABSL_GUARDED_BY(mutex_);
  // By address; those that no server has any more go when another is added.
  std::map<std::string, std::shared_ptr<Connection>> connections_
      ABSL_GUARDED_BY(mutex_);
  uint64_t num_questions_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_asking_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  Question last_ ABSL_GUARDED_BY(mutex_);
  CondVar changed_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_
