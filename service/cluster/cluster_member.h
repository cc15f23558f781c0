// A server's part in its cluster.

#ifndef TENSORKV_SERVICE_CLUSTER_CLUSTER_MEMBER_H_
#define TENSORKV_SERVICE_CLUSTER_CLUSTER_MEMBER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "channels/channels.h"
#include "contract/placement.h"
#include "service/cluster/cluster_options.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/known_placement.h"

namespace tensorkv {

// Keeps a server registered at etcd, and its KnownPlacement up to date, on a
// thread of its own. ClusterRecords says what etcd has.
//
// 1. Each third of the lease it renews the lease and reads both, at one moment.
// 2. The placement is created once, by whoever finds none and as many servers
//    as make the first one. If etcd loses it, who knows it puts it back.
// 3. Of two servers with one name the one that started last has its keys; the
//    other owns nothing from when it reads so.
// 4. While etcd is away, what is known stays known, until
//    KnownPlacement::OwnUntil ends it.
// 5. A malformed registration counts as none; the placement has to be right.
//
// Thread-safe.
class ClusterMember {
 public:
  // Listener hears what happens to the server. All is called by the member's
  // thread, and must not call Stop.
  struct Listener {
    // Called once, when a placement is known.
    std::function<void()> placed;
    // Called once, when another server has taken the name.
    std::function<void()> replaced;
    // Called after each attempt, as long as the server owns nothing although it
    // has known a placement: it was out of touch for too long
    // (KnownPlacement::OwnUntil), or another server has its name. Calls may
    // begin to wait between two attempts; `status` is what they are to be
    // answered.
    std::function<void(const absl::Status& status)> disowned;
    std::function<void(const std::string& line)> log;
  };

  // Starts. `options` have an address and at least one etcd endpoint; `etcd`,
  // the channels to these, and `known` outlive this.
  ClusterMember(ClusterOptions options, Channels* etcd, KnownPlacement* known,
                Listener listener);
  // Stops.
  ~ClusterMember() { Stop(); }

  // Ends the registration. Waits for the attempt that is under way; each of its
  // calls gives an endpoint a fifth of the lease, at most 5 s. Later calls do
  // nothing.
  void Stop();

  // Returns the lease of the registration; 0: there is none.
  int64_t lease() const { return lease_; }
  // Returns whether the last attempt has renewed the registration.
  bool is_in_touch() const { return is_in_touch_; }

 private:
  void Run();
  // Waits for `pause`, or until Stop is called; returns whether Stop was
  // called.
  bool Sleep(absl::Duration pause);
  // Returns how long until the next attempt.
  absl::Duration PauseAfter(const absl::Status& outcome) const;
  // Logs when the server gets into touch with etcd or out of it, and when it
  // stays out of it for another reason.
  void Report(const absl::Status& outcome);
  // Calls Listener::disowned if the server owns nothing any more.
  void TellIfDisowned();

  // Makes one attempt to renew, register and read.
  absl::Status RunOnce();
  absl::Status RenewOrGrantLease();
  absl::Status Register();
  // Returns the placement to write where etcd has none: the known one, or the
  // first; without owners if there are too few servers for the first.
  ClusterPlacement PlacementToCreate(
      const std::vector<ClusterServer>& servers) const;
  absl::Status CreatePlacement(const ClusterPlacement& placement);
  // Sets the known placement by what was read, tells the listener, and gives
  // the name up where another server has taken it. Writes nothing at etcd.
  absl::Status ApplyReading(ClusterReading reading);
  // Logs each server of both placements that is live in only one of them.
  void LogLivenessChanges(const ClusterPlacement& before,
                          const ClusterPlacement& placement) const;

  const ClusterOptions options_;
  KnownPlacement& known_;
  const Listener listener_;
  std::atomic<bool> is_in_touch_ = false;
  // Set by the thread; 0: none.
  std::atomic<int64_t> lease_ = 0;

  // Confined to the thread.
  ClusterRecords records_;
  bool is_registered_ = false;
  bool was_registered_ = false;
  bool is_placed_ = false;
  bool is_replaced_ = false;
  // Has the end of the attempt that Report has logged last.
  std::optional<absl::StatusCode> reported_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_CLUSTER_MEMBER_H_
