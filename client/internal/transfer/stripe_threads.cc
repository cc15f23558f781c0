#include "client/internal/transfer/stripe_threads.h"

#include <system_error>

namespace tensorkv {

StripeThreads::~StripeThreads() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    has_work_.SignalAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

StripeTeam StripeThreads::Assemble(int most) {
  MutexLock lock(&mutex_);
  int size = 1;
  while (size < most && num_taken_ < max_threads_) {
    if (num_taken_ == static_cast<int>(threads_.size()) && !StartThread()) {
      break;
    }
    ++num_taken_;
    ++size;
  }
  return StripeTeam(*this, size);
}

bool StripeThreads::StartThread() {
  try {
    threads_.emplace_back([this] { Serve(); });
    return true;
  } catch (const std::system_error&) {
    // The system has no more threads to give; a call does with fewer.
    return false;
  }
}

void StripeThreads::Release(int num_threads) {
  if (num_threads == 0) return;
  MutexLock lock(&mutex_);
  num_taken_ -= num_threads;
}

void StripeThreads::Run(int team_size, Work work) {
  int num_running = team_size - 1;
  if (num_running > 0) {
    MutexLock lock(&mutex_);
    for (int i = 1; i < team_size; ++i) {
      tasks_.push_back({work, i, &num_running});
    }
    has_work_.SignalAll();
  }
  work(0);
  if (team_size == 1) return;
  MutexLock lock(&mutex_);
  while (num_running > 0) has_finished_.Wait(&mutex_);
}

void StripeThreads::Serve() {
  mutex_.lock();
  for (;;) {
    while (tasks_.empty() && !is_stopping_) has_work_.Wait(&mutex_);
    if (tasks_.empty()) break;
    const Task task = tasks_.front();
    tasks_.pop_front();
    mutex_.unlock();
    task.work(task.index);
    mutex_.lock();
    if (--*task.num_running == 0) has_finished_.SignalAll();
  }
  mutex_.unlock();
}

}  // namespace tensorkv
