// A GPU for tests, made of host threads, that is late, out of order and broken
// as they wish.

#ifndef TENSORKV_TESTS_TESTING_FAKE_GPU_H_
#define TENSORKV_TESTS_TESTING_FAKE_GPU_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "kernels/cuda/device.h"

namespace tensorkv::testing {

struct FakeGpuOptions {
  // It is named "fake:<ordinal>".
  int ordinal = 0;
  uint64_t memory_bytes = uint64_t{1} << 30;
  // With a seed, one piece of work runs at a time, of a stream drawn at random
  // from those that could go on, and who waits looks for a while before it
  // sleeps; else streams run side by side.
  std::optional<uint64_t> shuffle_seed;
};

// Each stream is a thread that does copies and the kernels' code, in the
// stream's order. Device memory is host memory, allocated and freed where the
// stream is at that point, so that an early use is an error here and a late one
// is for AddressSanitizer to find; a missing order is for ThreadSanitizer. Who
// writes beyond the end of some memory ends the process, when it is freed or,
// with AddressSanitizer, at once.
//
// Addresses of device memory are none that the host could use: an attempt ends
// the process. Work that is given other addresses fails, and so does the
// device.
//
// Thread-safe. Outlives the device.
class FakeGpu {
 public:
  explicit FakeGpu(const FakeGpuOptions& options = {});
  ~FakeGpu();

  // The GPU as the code under test sees it. REQUIRES: one at a time.
  std::unique_ptr<Device> Open();

  // The call of the device, a stream or an event that is `index` calls from
  // now (0 is the next) returns `status` and does nothing; but memory that it
  // would free is freed.
  void FailCall(int64_t index, absl::Status status);
  // The same for a copy, kernel or clearing as it runs. The device fails.
  void FailWork(int64_t index, absl::Status status);
  // Whether a FailCall or FailWork came to pass.
  bool has_injected() const;

  // Streams of this use stand still until Release.
  void Hold(StreamUse use);
  void Release(StreamUse use);
  // Returns when a stream that is held has at least so many pieces of work.
  void WaitForQueued(StreamUse use, size_t num_work);
  // Whether one has by now.
  bool HasQueued(StreamUse use, size_t num_work) const;

  // What there is at present.
  struct Usage {
    uint64_t device_bytes = 0;
    uint64_t pinned_bytes = 0;
    int num_streams = 0;
    int num_events = 0;

    friend bool operator==(const Usage&, const Usage&) = default;
  };
  Usage usage() const;

  // Kernels and copies run so far.
  int64_t num_launches() const;
  int64_t num_copies() const;
  // Pieces of device memory allocated so far.
  int64_t num_allocations() const { return num_allocations_; }
  // How often a thread has waited for an event or a stream so far.
  int64_t num_waits() const { return num_waits_; }
  // What is begun and not ended, of that which profiles show.
  int64_t num_open_ranges() const { return num_open_ranges_; }
  // The most device memory that was allocated since the last trim.
  uint64_t reserved_bytes() const;

 private:
  class FakeDevice;
  class FakeStream;
  class FakeEvent;
  struct EventState;
  struct Work;
  struct Queue;

  struct Memory {
    size_t size_bytes = 0;
    bool is_pinned = false;
    // Whether the stream has come to the allocation.
    bool is_there = false;
  };

  // A fault to come, counted down.
  struct Fault {
    int64_t calls_left = -1;
    absl::Status status;
    bool has_come = false;

    absl::Status Next();
  };

  absl::Status BeginCall();
  bool HasQueuedLocked(StreamUse use, size_t num_work) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(Queue& queue, Work work);
  void RunQueue(Queue& queue);
  bool MayRun(Queue& queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRunnable(const Queue& queue) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DrawTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Perform(Work& work);

  void CountCopy();
  uint64_t UsedBytes(bool is_pinned) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> NewMemory(size_t size_bytes, bool is_pinned);
  void Trim();
  void SetThere(char* memory);
  void DeleteMemory(char* memory);

  // Where the bytes at an address of the device really are.
  // Errors: Internal if they are not all its memory.
  absl::StatusOr<char*> Find(const void* device, size_t size_bytes) const;
  // The same, and for what kernels may only read, which is pinned.
  absl::StatusOr<char*> FindToRead(const void* data, size_t size_bytes) const;
  absl::Status CheckPinned(const void* pinned, size_t size_bytes) const;
  absl::Status CheckRange(const char* begin, size_t size_bytes,
                          bool is_pinned) const;
  // The same for all that `launch` refers to.
  absl::Status RunLaunch(UpdateLaunch launch,
                         absl::string_view table_beside) const;
  absl::Status TranslateValue(RuleKind rule, UpdateEntry& entry) const;
  absl::Status TranslateContributions(UpdateEntry& entry,
                                      const UpdateWork& work,
                                      std::vector<SourceArray>& out) const;
  template <typename T>
  absl::Status Translate(T*& address) const;

  const FakeGpuOptions options_;
  const std::string name_;
  DeviceHealth health_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<Queue*> queues_ ABSL_GUARDED_BY(mutex_);
  // Whose work is next, when shuffling.
  Queue* turn_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_held_[kNumStreamUses] ABSL_GUARDED_BY(mutex_) = {};
  Fault call_fault_ ABSL_GUARDED_BY(mutex_);
  Fault work_fault_ ABSL_GUARDED_BY(mutex_);
  std::map<const char*, Memory> memory_ ABSL_GUARDED_BY(mutex_);
  int num_events_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_launches_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_copies_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<int64_t> num_allocations_ = 0;
  std::atomic<int64_t> num_waits_ = 0;
  std::atomic<int64_t> num_open_ranges_ = 0;
  uint64_t reserved_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_FAKE_GPU_H_
