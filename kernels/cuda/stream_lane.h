// A stream with somebody who waits for what was put on it.

#ifndef TENSORKV_KERNELS_CUDA_STREAM_LANE_H_
#define TENSORKV_KERNELS_CUDA_STREAM_LANE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/cuda/device.h"

namespace tensorkv {

// One stream, used by one thread, and a thread that waits for events on it.
class StreamLane {
 public:
  using DoneCallback = absl::AnyInvocable<void(absl::Status) &&>;

  // `device` outlives the lane. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<StreamLane>> Create(Device* device,
                                                            StreamUse use);
  // Waits for all callbacks.
  ~StreamLane() = default;

  Stream& stream() { return *stream_; }

  // Calls `done` when all work of the stream so far is over, in any case, with
  // what it ended with: memory that the work used is free then. On the lane's
  // thread, in order; `done` must not block.
  void WhenDone(DoneCallback done);

 private:
  StreamLane(Device* device, std::unique_ptr<Stream> stream)
      : device_(*device), stream_(std::move(stream)) {}

  absl::StatusOr<std::unique_ptr<Event>> TakeEvent();
  absl::StatusOr<std::unique_ptr<Event>> RecordedEvent();
  void Reuse(std::unique_ptr<Event> event);
  absl::Status OutcomeOf(absl::StatusOr<std::unique_ptr<Event>> event);

  Device& device_;
  const std::unique_ptr<Stream> stream_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Event>> events_ ABSL_GUARDED_BY(mutex_);
  Executor waiter_;  // last: its tasks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_STREAM_LANE_H_
