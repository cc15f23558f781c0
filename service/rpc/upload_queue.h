// Bounds how many calls receive tensors at once.

#ifndef TENSORKV_SERVICE_RPC_UPLOAD_QUEUE_H_
#define TENSORKV_SERVICE_RPC_UPLOAD_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/task_pool.h"

namespace tensorkv {

// Gives streamed calls places in the order in which they come. Who waits has
// no memory for tensors, and who has a place waits for nobody but its peer: so
// nobody waits for ever. Thread-safe; outlives the places.
class UploadQueue {
 public:
  // One of the places. It is given back when this goes.
  class Place {
   public:
    Place() = default;
    explicit Place(UploadQueue* queue) : queue_(queue) {}
    Place(Place&& other) noexcept
        : queue_(std::exchange(other.queue_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(queue_, other.queue_);
      return *this;
    }
    ~Place() {
      if (queue_ != nullptr) queue_->Leave();
    }

   private:
    UploadQueue* queue_ = nullptr;
  };
  using Turn = absl::AnyInvocable<void(Place) &&>;

  // `pool` outlives the queue.
  UploadQueue(uint32_t num_places, TaskRunner* pool)
      : num_free_(num_places), pool_(*pool) {}

  // Calls `turn` with a place: now if one is free, and then returns 0; else,
  // once those before have theirs, on a thread of the pool.
  uint64_t Enter(Turn turn);
  // Forgets a turn that has not come, by what Enter has returned.
  void Withdraw(uint64_t entry);

  size_t num_waiting() const;

 private:
  void Leave();

  mutable Mutex mutex_;
  uint32_t num_free_ ABSL_GUARDED_BY(mutex_);
  // By what Enter has returned, in that order.
  std::map<uint64_t, Turn> waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_entry_ ABSL_GUARDED_BY(mutex_) = 0;
  TaskRunner& pool_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_UPLOAD_QUEUE_H_
