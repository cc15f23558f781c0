// Names a client's calls so that servers need to remember little of them.

#ifndef TENSORKV_CLIENT_INTERNAL_CALL_LANES_H_
#define TENSORKV_CLIENT_INTERNAL_CALL_LANES_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv {

// Gives each call a name of its own, for all its attempts. Thread-safe;
// outlives its calls.
//
// Calls at the same time go in lanes of their own, each under a client id of
// its own. In a lane one call follows the other, so that a server has no need
// of any answer but the latest of each lane, however slow one of the calls is
// and however many others overtake it. A process that was forked begins with
// client ids of its own.
class CallLanes {
 private:
  struct Lane {
    std::string client_id;
    uint64_t last_sequence = 0;
  };

 public:
  // A call's place in a lane, for as long as it may be repeated.
  class Place {
   public:
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { lanes_.Return(std::move(lane_)); }

    CallId id() const { return {lane_->client_id, lane_->last_sequence}; }

   private:
    friend class CallLanes;
    Place(CallLanes& lanes, std::unique_ptr<Lane> lane)
        : lanes_(lanes), lane_(std::move(lane)) {}

    CallLanes& lanes_;
    std::unique_ptr<Lane> lane_;
  };

  Place Begin();

 private:
  // Forgets what the process has from the one that it was forked from.
  void BeginAnewAfterFork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(std::unique_ptr<Lane> lane);

  Mutex mutex_;
  // The process whose calls these are, and its random bytes.
  pid_t process_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string prefix_ ABSL_GUARDED_BY(mutex_);
  uint32_t num_lanes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Lane>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALL_LANES_H_
