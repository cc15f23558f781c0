#include "service/rpc/upload_queue.h"

namespace tensorkv {

uint64_t UploadQueue::Enter(Turn turn) {
  {
    MutexLock lock(&mutex_);
    if (num_free_ == 0) {
      waiting_.emplace(++last_entry_, std::move(turn));
      return last_entry_;
    }
    --num_free_;
  }
  std::move(turn)(Place(this));
  return 0;
}

void UploadQueue::Withdraw(uint64_t entry) {
  Turn turn;
  MutexLock lock(&mutex_);
  const auto it = waiting_.find(entry);
  if (it == waiting_.end()) return;
  turn = std::move(it->second);
  waiting_.erase(it);
}

void UploadQueue::Leave() {
  Turn turn;
  {
    MutexLock lock(&mutex_);
    if (waiting_.empty()) {
      ++num_free_;
      return;
    }
    turn = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
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
