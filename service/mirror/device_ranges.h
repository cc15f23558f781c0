// Carries ranges from the device of one server to those of the others.

#ifndef TENSORKV_SERVICE_MIRROR_DEVICE_RANGES_H_
#define TENSORKV_SERVICE_MIRROR_DEVICE_RANGES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/device_link.h"
#include "service/mirror/mirror_group.h"
#include "service/mirror/range_transport.h"

namespace tensorkv {

// The ranges of a phase go at once, whatever their keys, on one thread, which
// waits for the device. The devices meet in the first attempt of a
// communicator's id; an attempt that fails, is late or is given up parts them,
// so that nothing of it is left on the device. Thread-safe.
class DeviceRanges final : public RangeTransport,
                           public std::enable_shared_from_this<DeviceRanges> {
 public:
  struct Environment {
    MirrorGroupPtr group;
    // All of these outlive the calls before Stop.
    DeviceLink* link = nullptr;
    Alarms* alarms = nullptr;
    // A thread for nothing else.
    Executor* thread = nullptr;
  };

  explicit DeviceRanges(Environment environment);

  // Returns the link for the leader, who has devices meet that say the same
  // version.
  const mirror::v1::Link& link() const { return link_; }

  // Begins an attempt with the devices that meet under that id. The others are
  // given up: the leader makes one at a time. `kept` stays as long as something
  // may read or write the attempt's memory: Forget does not wait for that. So
  // none begins where two wait for the thread already, which a device may hold
  // up for good: their memory alone is kept then.
  // Errors: InvalidArgument: no id · Unavailable.
  absl::Status Begin(uint64_t attempt, const std::string& communicator,
                     std::shared_ptr<const void> kept);

  // Expects ranges as RangeTransport does, of an attempt that has begun.
  void Expect(uint64_t attempt, int phase, RangesToReceive receives) override;
  void Move(uint64_t attempt, int phase, RangesToSend sends,
            absl::Duration timeout, Callback done) override;
  void Forget(uint64_t attempt) override;

  // Gives up all attempts and parts the devices; returns when the link and the
  // devices are not used any more.
  void Stop();

 private:
  struct Attempt {
    std::string communicator;
    std::shared_ptr<const void> kept;
    RangesToReceive receives[kNumPhases];
    std::atomic<bool> is_given_up = false;
  };
  using AttemptPtr = std::shared_ptr<Attempt>;

  AttemptPtr Find(uint64_t attempt);
  // On the thread.
  absl::Status Exchange(Attempt& attempt, int phase, RangesToSend sends,
                        absl::Duration deadline);
  absl::Status Meet(const std::string& communicator, MayWait may_wait);

  const Environment environment_;
  const MirrorGroup& group_ = *environment_.group;
  const mirror::v1::Link link_;
  // Only the thread uses these: the devices that have met last, and by which
  // id.
  std::unique_ptr<DeviceGroup> devices_;
  std::string communicator_;

  Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, AttemptPtr> attempts_ ABSL_GUARDED_BY(mutex_);
  // Counts what the thread has begun or is to begin.
  int num_moves_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_DEVICE_RANGES_H_
