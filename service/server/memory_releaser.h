// Gives memory that nobody needs back to the system.

#ifndef TENSORKV_SERVICE_SERVER_MEMORY_RELEASER_H_
#define TENSORKV_SERVICE_SERVER_MEMORY_RELEASER_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"

namespace tensorkv {

// FreeMemory is the memory that an allocator has free, and keeps for use again.
// Thread-safe.
class FreeMemory {
 public:
  virtual ~FreeMemory() = default;

  virtual size_t bytes() const = 0;
  // Gives about that much of it back to the system.
  virtual void Release(size_t bytes) = 0;
};

// Looks at the free memory kLooksPerWindow times in each window, evenly, and at
// its end releases what was free all through it: what a steady load uses again
// and again stays, what a burst has left goes. That goes in slices, with pauses
// between: whoever needs pages waits for those that are on their way.
// Thread-safe.
class MemoryReleaser {
 public:
  // Often enough to see what a load uses for moments only.
  static constexpr int kLooksPerWindow = 50;
  static constexpr size_t kSliceBytes = size_t{64} << 20;
  static constexpr absl::Duration kPause = absl::Milliseconds(20);

  // Starts; all runs on the threads of `alarms`. Both outlive this object.
  // REQUIRES: window > 0.
  MemoryReleaser(absl::Duration window, FreeMemory* memory, Alarms* alarms);
  // Waits for a look that is under way.
  ~MemoryReleaser();
  MemoryReleaser(const MemoryReleaser&) = delete;
  MemoryReleaser& operator=(const MemoryReleaser&) = delete;

 private:
  // Takes one look, or releases the next slice where some are left.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes the free bytes of a look, and at the end of the window what is to be
  // released.
  void CountLook(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration period_;
  FreeMemory& memory_;
  Alarms& alarms_;

  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_scheduled_ ABSL_GUARDED_BY(mutex_) = false;
  Alarms::Id alarm_ ABSL_GUARDED_BY(mutex_) = 0;
  // Counts what is yet to be released of what the last window has found.
  size_t left_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Hold what has been seen in the window under way.
  int num_looks_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t least_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_MEMORY_RELEASER_H_
