// Tells a client of a cluster which server owns what.

#ifndef TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_
#define TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/canceller.h"
#include "client/cluster/waits.h"
#include "client/connection.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"
#include "client/internal/retry/retry_loop.h"
#include "client/internal/transfer/server_incarnation.h"
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

  // Returns the placement that is known; null if none is.
  PlacementPtr Known() const;
  // Asks one server after the other, those that live first, until one knows a
  // placement of `version` or a newer one. Returns the newest that is known
  // then, which may be older. Takes the answer to a question of another caller
  // that has begun later than this call.
  // Errors: Unavailable (no server answers; none knows a placement) · Internal
  // (a placement that makes no sense) · Cancelled · DeadlineExceeded (no time
  // is left) · the error of the last server that has answered.
  Task<absl::StatusOr<PlacementPtr>> Refresh(uint64_t version,
                                             const CallLimit& limit);

  // Returns the answer of the first server that answers. Errors: those of
  // Refresh.
  Task<absl::StatusOr<DescribeClusterReply>> Describe(const CallLimit& limit) {
    return AskTogether(0, limit);
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

  // Keeps `placement` unless a newer one is known.
  void Learn(ClusterPlacement placement);
  // Returns the addresses to ask, in their order: those of live servers by the
  // known placement, then those given to the constructor.
  std::vector<std::string> Addresses() const;
  // Returns what AskOneByOne returns to this caller, or to another one that has
  // asked meanwhile. Errors: also Cancelled and DeadlineExceeded, of whoever
  // waits for another caller.
  Task<absl::StatusOr<DescribeClusterReply>> AskTogether(
      uint64_t version, const CallLimit& limit);
  // Returns whether the last question, which has ended, tells what a call wants
  // to know that has begun when so many questions had begun.
  bool AnswersAll(uint64_t version, uint64_t num_before) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until the canceller of a question is cancelled, or as long as the
  // limit says.
  Task<absl::Status> AwaitEnd(const std::shared_ptr<Canceller>& of_question,
                              const CallLimit& limit);
  // Asks one address after the other until a server knows a placement of
  // `version`. Returns the answer of that server, or of the last that has
  // answered. Learns the placements that they tell.
  Task<absl::StatusOr<DescribeClusterReply>> AskOneByOne(
      uint64_t version, const CallLimit& limit);
  // Asks one server, and learns the placement that it tells.
  Task<absl::StatusOr<DescribeClusterReply>> Ask(const std::string& address,
                                                 const CallLimit& limit);
  absl::StatusOr<std::shared_ptr<Connection>> ConnectionTo(
      const std::string& address);

  const std::vector<std::string> addresses_;
  const ServerConnector connect_;
  const RetryEnvironment environment_ = SystemRetryEnvironment();

  mutable Mutex mutex_;
  PlacementPtr known_ ABSL_GUARDED_BY(mutex_);
  // By address; those that no server has any more go when another is added.
  std::map<std::string, std::shared_ptr<Connection>> connections_
      ABSL_GUARDED_BY(mutex_);
  uint64_t num_questions_ ABSL_GUARDED_BY(mutex_) = 0;
  // Is cancelled when the question ends that is under way; null: none is.
  std::shared_ptr<Canceller> under_way_ ABSL_GUARDED_BY(mutex_);
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  Question last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_
