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
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// All ranges of a phase go at once, whatever their keys, on one thread, which
// waits for the device. The devices join a group of NCCL in the first attempt
// with a communicator's id; an attempt that fails, is late or is given up ends
// the group, so that nothing of it is left on the device. Thread-safe.
class DeviceRanges final : public RangeTransport,
                           public std::enable_shared_from_this<DeviceRanges> {
 public:
  struct Environment {
    MirrorGroupPtr group;
    // All of these outlive the calls before Stop.
    DeviceLink* link = nullptr;
    Alarms* alarms = nullptr;
    // Runs nothing else: it may be blocked by the device.
    Executor* thread = nullptr;
  };

  explicit DeviceRanges(Environment environment);

  // Returns what this server announces of its link. The leader lets devices
  // meet only if all announce the same version.
  const v1::GpuLink& link() const { return link_; }

  // Begins an attempt between the devices that meet by the id `communicator`,
  // without waiting for them, and gives up all earlier ones: the leader makes
  // one at a time. Keeps `kept` as long as something may read or write the
  // attempt's memory, also after EndAttempt, which does not wait. A device may
  // block the thread for good; so that no more memory is kept then, no attempt
  // begins while two Moves wait. Errors: InvalidArgument: no id · Unavailable:
  // two wait · Cancelled: after Stop.
  absl::Status Begin(uint64_t attempt, const std::string& communicator,
                     std::shared_ptr<const void> kept);

  // Expects ranges as RangeTransport does, but only of an attempt that has
  // begun.
  void Expect(uint64_t attempt, int phase, RangesToReceive receives) override;
  void Move(uint64_t attempt, int phase, RangesToSend sends,
            absl::Duration timeout, Callback done) override;
  void EndAttempt(uint64_t attempt) override;

  // Gives up all attempts and leaves the group of NCCL; returns when the link
  // and the device are not used any more.
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
  // These run on the thread. Exchange sends and receives the ranges of a phase;
  // Meet joins the group, unless the devices have joined it already.
  absl::Status Exchange(Attempt& attempt, int phase, RangesToSend sends,
                        absl::Duration deadline);
  absl::Status Meet(const std::string& communicator, MayWait may_wait);

  const Environment environment_;
  const MirrorGroup& group_ = *environment_.group;
  const v1::GpuLink link_;
  // Only the thread uses these: the group that the device has joined, and its
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
