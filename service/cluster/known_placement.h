// Knows which keys this server owns.

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
  // Hears of each placement that Set takes, one at a time, before any call is
  // checked by it. Must not call Set or LoseName.
  using Listener = std::function<void(const View& view)>;

  // `server_name` is the server's name in its cluster; empty: it is in none.
  explicit KnownPlacement(std::string server_name, Listener listener = {});

  // Gives the server that name, and the keys that the placement has for it,
  // from now on. Does nothing, and returns OK, if the placement is older than
  // the one that is known. Errors: InvalidArgument: no owners, or one that is
  // no server.
  absl::Status Set(ClusterPlacement placement, std::string server_name);

  // Takes the name from this server, for good, since another one has it: from
  // now on this server owns nothing, by whatever placement is set.
  void LoseName();

  // Has the server own nothing from the moment `end` on, as before it knew a
  // placement, unless a later call moves `end`: others may then take it for
  // lost.
  void OwnUntil(std::chrono::steady_clock::time_point end) { own_until_ = end; }

  bool is_in_cluster() const {
    return is_in_cluster_.load(std::memory_order_acquire);
  }
  // Returns OK, or Unavailable: no placement is known yet, or the moment of
  // OwnUntil has passed.
  absl::Status readiness() const;
  // Returns how many partitions this server owns, those not restored yet too.
  uint64_t num_own_partitions() const;
  // Returns the newest placement, whether the moment of OwnUntil has passed or
  // not; without owners if there is none.
  ClusterPlacement last_placement() const;
  // Returns the answer to DescribeCluster.
  DescribeClusterReply Describe() const;

  // View is the KnownPlacement at one moment, for all keys of one call.
  // Immutable.
  class View {
   public:
    View(std::string server_name, ClusterPlacement placement);

    // Returns OK if the server owns the key and has it.
    // Errors: FailedPrecondition (WRONG_SERVER) · Unavailable: no placement is
    // known, or the key is not restored yet (KEY_NOT_RESTORED).
    absl::Status Check(absl::string_view name_space,
                       absl::string_view key) const;
    // Returns OK if this server takes the calls of the worker of that rank in
    // mirrored namespaces; and always for a call without a rank, if a placement
    // is known. Errors: those of Check.
    absl::Status CheckRank(std::optional<uint32_t> rank) const;
    // Returns OK if the server has all keys that it owns. Errors: Unavailable:
    // some are not restored yet (KEY_NOT_RESTORED), or no placement is known.
    absl::Status CheckWhole() const;

    const std::string& server_name() const { return server_name_; }
    const ClusterPlacement& placement() const { return placement_; }
    uint64_t num_own_partitions() const;
    // Returns the partitions that this server owns and has; not those that are
    // to be restored yet.
    PartitionSet own_partitions() const;

   private:
    // Returns the error WRONG_SERVER: `subject` is that server's.
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
