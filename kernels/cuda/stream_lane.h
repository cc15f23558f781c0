// A stream with a thread that waits for its work.

#ifndef TENSORKV_KERNELS_CUDA_STREAM_LANE_H_
#define TENSORKV_KERNELS_CUDA_STREAM_LANE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/cuda/device.h"

namespace tensorkv {

// One stream, which one caller uses at a time, and a thread that waits for the
// events of its work and runs callbacks. Thread-safe.
class StreamLane {
 public:
  using DoneCallback = absl::AnyInvocable<void(absl::Status) &&>;

  // `device` outlives the lane. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<StreamLane>> Create(Device* device,
                                                            StreamUse use);
  // Blocks until all callbacks have returned.
  ~StreamLane() = default;

  // Calls `start` at once, to put work on the stream, while no other caller
  // does; then `done`, also after an error, when the work is over: its memory
  // is free then. `done` gets the status that `start` has returned or, if that
  // is OK, that of the work. It runs on the lane's thread, in the order of
  // calls, and must not block. Returns the status of `start`.
  absl::Status Run(absl::FunctionRef<absl::Status(Stream& stream)> start,
                   DoneCallback done);

  // A call of Enqueue.
  struct Mark {
    // Its number, from 1.
    uint64_t number = 0;
    // Its range in profiles (Device::BeginRange).
    uint64_t range = 0;
  };

  // Calls `start` as Run does, but the lane does not wait for the work and
  // calls nothing back. Sets `mark`. Returns the status of `start`. The caller,
  // who learns the end of the work from other work that is ordered behind it,
  // must then call EndEnqueued, also after an error.
  absl::Status Enqueue(absl::FunctionRef<absl::Status(Stream& stream)> start,
                       Mark& mark);
  // Tells the lane that the work of `mark` is over, and so that of earlier
  // calls of Enqueue. To be called once for each, as it ends the range of
  // `mark`.
  void EndEnqueued(const Mark& mark);

  // Calls `done`, as Run does, when the work that is on the stream now is over.
  void WhenDone(DoneCallback done);

  // Makes later work of `stream`, which is not the lane's own, wait on the
  // device for the work that is on the lane's stream now; blocks until that is
  // over if the device cannot. Errors: those of the device.
  absl::Status OrderBehind(Stream& stream);

  // Returns the number of calls of Run and WhenDone so far.
  uint64_t num_started() const;
  // Blocks until the callbacks of the first `num` such calls have returned.
  // REQUIRES: not called by a callback of this lane.
  void WaitForCallbacks(uint64_t num) const;

 private:
  StreamLane(Device* device, StreamUse use, std::unique_ptr<Stream> stream)
      : device_(*device), use_(use), stream_(std::move(stream)) {}

  // Returns an event of events_, or a new one.
  absl::StatusOr<std::unique_ptr<Event>> ReuseOrCreateEvent()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns an event that is recorded behind all work of the stream.
  absl::StatusOr<std::unique_ptr<Event>> RecordedEvent()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the event and calls `done`, on the lane's thread.
  void AwaitAndCall(absl::Status started,
                    absl::StatusOr<std::unique_ptr<Event>> event,
                    uint64_t range, DoneCallback done);
  // Waits for the event, and returns the status of the work before it.
  absl::Status OutcomeOf(absl::StatusOr<std::unique_ptr<Event>> event);
  // Spins for Device::spin_time, or until another call has been started.
  void SpinForMore();

  Device& device_;
  const StreamUse use_;
  const std::unique_ptr<Stream> stream_;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::vector<std::unique_ptr<Event>> events_ ABSL_GUARDED_BY(mutex_);
  // The event recorded behind all work of the stream; null if that failed.
  // Owned by events_ or by a task; if it is recorded again, it is further
  // behind.
  const Event* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // The calls of Enqueue, and those of them whose work is over, or is before
  // work of a call of Run.
  uint64_t num_enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_enqueued_awaited_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many tasks the waiter was given, and how many of them have ended.
  // Changed with the mutex held.
  std::atomic<uint64_t> num_started_ = 0;
  std::atomic<uint64_t> num_ended_ = 0;

  Executor waiter_;  // last: its tasks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_STREAM_LANE_H_
