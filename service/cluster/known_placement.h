// Knows which keys are this server's own.

#ifndef TENSORKV_SERVICE_CLUSTER_KNOWN_PLACEMENT_H_
#define TENSORKV_SERVICE_CLUSTER_KNOWN_PLACEMENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "service/store/key_fence.h"

namespace tensorkv {

// The newest placement that a server knows. Thread-safe.
//
// A server in no cluster owns every key. One in a cluster owns none before it
// knows a placement, nor if the placement does not name it.
class KnownPlacement {
 public:
  class View;
  // Hears of each placement that is set, if it is not older than the one
  // before, one at a time, before any call is checked by it.
  using Listener = std::function<void(const View& view)>;

  // The server's name in its cluster; empty: it is in none.
  explicit KnownPlacement(std::string server_name, Listener listener = {});

  // From now on the server has that name, and the keys that the placement gives
  // it; an older placement than the one that is known is passed over.
  // Errors: InvalidArgument: no owners, or one that is no server.
  absl::Status Set(ClusterPlacement placement, std::string server_name);

  // Another server has the name: this one owns nothing any more, by whatever
  // placement it is told.
  void LoseName();

  // From that moment on the server owns nothing, as before it knew a placement,
  // until it is told a later one: others may take what it has for lost.
  void OwnUntil(std::chrono::steady_clock::time_point end) { own_until_ = end; }

  bool is_in_cluster() const {
    return is_in_cluster_.load(std::memory_order_acquire);
  }
  // OK, or Unavailable: no placement is known yet, or OwnUntil has passed.
  absl::Status readiness() const;
  // Returns how many partitions are this server's.
  uint64_t num_own_partitions() const;
  // Returns the newest, whether OwnUntil has passed or not; without owners if
  // there is none.
  ClusterPlacement last_placement() const;
  // Returns the answer to DescribeCluster.
  DescribeClusterReply Describe() const;

  // One moment of it, for the keys of one call.
  class View {
   public:
    View(std::string server_name, ClusterPlacement placement);

    // OK if the server has the key.
    // Errors: FailedPrecondition (WRONG_SERVER) · Unavailable: no placement is
    // known, or the key is not restored yet (KEY_NOT_RESTORED).
    absl::Status Check(absl::string_view name_space,
                       absl::string_view key) const;
    // OK if this server takes the calls of the worker of that rank in mirrored
    // namespaces, or those of nobody in particular. Errors: as of Check.
    absl::Status CheckRank(std::optional<uint32_t> rank) const;
    // OK if the server has all keys that are its own. Errors: Unavailable
    // (KEY_NOT_RESTORED, or without a placement that holds).
    absl::Status CheckWhole() const;

    const std::string& server_name() const { return server_name_; }
    const ClusterPlacement& placement() const { return placement_; }
    uint64_t num_own_partitions() const;
    // Returns those of the partitions that this server owns.
    PartitionSet own_partitions() const;

   private:
    // `subject` is the server's, and not this one's.
    absl::Status NotOwned(absl::string_view subject, absl::string_view key,
                          uint32_t owner) const;

    const std::string server_name_;
    const ClusterPlacement placement_;
    // Nothing: the placement does not name this server.
    const std::optional<uint32_t> own_index_;
    // Names, for each own partition that is not there yet, the server that it
    // is to be restored from.
    const std::map<uint32_t, std::string> missing_;
  };

  // Returns null if the server is in no cluster.
  std::shared_ptr<const View> view() const;

 private:
  const Listener listener_;
  // Calls of a server in no cluster ask no more than this.
  std::atomic<bool> is_in_cluster_;
  std::atomic<std::chrono::steady_clock::time_point> own_until_ =
      std::chrono::steady_clock::time_point::max();
  // Held while a placement is set. Taken before mutex_.
  Mutex setting_;
  mutable Mutex mutex_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  bool has_lost_name_ ABSL_GUARDED_BY(mutex_) = false;
  // The same as view_, without a placement.
  std::shared_ptr<const View> ended_view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_KNOWN_PLACEMENT_H_
