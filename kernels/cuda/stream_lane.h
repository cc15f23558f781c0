// A stream with somebody who waits for what was put on it.

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

// One stream that callers take turns at, and a thread that waits for events on
// it. Thread-safe.
class StreamLane {
 public:
  using DoneCallback = absl::AnyInvocable<void(absl::Status) &&>;

  // `device` outlives the lane. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<StreamLane>> Create(Device* device,
                                                            StreamUse use);
  // Waits for all callbacks.
  ~StreamLane() = default;

  // Has `start` put work on the stream, on the caller's thread and while nobody
  // else does, and calls `done` when that is over, in any case: memory that it
  // used is free then. `done` is given what `start` has returned or, if that is
  // OK, what the work ended with. It runs on the lane's thread, in order, and
  // must not block. Returns what `start` returned.
  absl::Status Run(absl::FunctionRef<absl::Status(Stream& stream)> start,
                   DoneCallback done);

  // What Put has put there.
  struct Mark {
    uint64_t place = 0;
    uint64_t range = 0;
  };

  // Puts on the stream what `start` does, as Run does, but no thread waits for
  // it: what is ordered behind it tells that it is over, and who hears of that
  // calls EndPut, whatever Put has returned.
  absl::Status Put(absl::FunctionRef<absl::Status(Stream& stream)> start,
                   Mark& mark);
  void EndPut(const Mark& mark);

  // The same for what is on the stream by now.
  void WhenDone(DoneCallback done);

  // Has later work of `stream`, another than this one's, wait for what is on
  // this one by now; where that cannot be said, waits for it. Errors: those of
  // the device.
  absl::Status OrderBehind(Stream& stream);

  // So many calls of Run there were.
  uint64_t num_started() const;
  // Returns when the callbacks of the first `num` calls have returned.
  // REQUIRES: not called by a callback of this lane.
  void WaitForCallbacks(uint64_t num) const;

 private:
  StreamLane(Device* device, StreamUse use, std::unique_ptr<Stream> stream)
      : device_(*device), use_(use), stream_(std::move(stream)) {}

  absl::StatusOr<std::unique_ptr<Event>> TakeEvent()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::unique_ptr<Event>> RecordedEvent()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // On the lane's thread.
  void End(absl::Status started, absl::StatusOr<std::unique_ptr<Event>> event,
           uint64_t range, DoneCallback done);
  absl::Status OutcomeOf(absl::StatusOr<std::unique_ptr<Event>> event);
  void LookForMore();

  Device& device_;
  const StreamUse use_;
  const std::unique_ptr<Stream> stream_;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::vector<std::unique_ptr<Event>> events_ ABSL_GUARDED_BY(mutex_);
  // Behind all work of the stream; null if that is not known. Kept here or by a
  // task; recorded again it is further behind.
  const Event* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // How many calls of Put there were, and of how many it is known, or told by a
  // call of Run, that they are over.
  uint64_t num_put_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_put_awaited_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many tasks the waiter was given, and how many of them have ended.
  // Changed with the mutex held.
  std::atomic<uint64_t> num_started_ = 0;
  std::atomic<uint64_t> num_ended_ = 0;

  Executor waiter_;  // last: its tasks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_STREAM_LANE_H_
