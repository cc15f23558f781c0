#include "service/rpc/upload_queue.h"

namespace tensorkv {

void UploadQueue::Enter(Turn turn) {
  {
    MutexLock lock(&mutex_);
    if (num_free_ == 0) {
      waiting_.push_back(std::move(turn));
      return;
    }
    --num_free_;
  }
  std::move(turn)(Place(this));
}

void UploadQueue::Leave() {
  Turn turn;
  {
    MutexLock lock(&mutex_);
    if (waiting_.empty()) {
      ++num_free_;
      return;
    }
    turn = std::move(waiting_.front());
    waiting_.pop_front();
  }
  TaskRunner::Task begin = [this, turn = std::move(turn)]() mutable {
    std::move(turn)(Place(this));
  };
  // Without a pool, calls end: whoever waits hears that its call has.
  if (!pool_.Submit("uploads", std::move(begin))) std::move(begin)();
}

size_t UploadQueue::num_waiting() const {
  MutexLock lock(&mutex_);
  return waiting_.size();
}

}  // namespace tensorkv
