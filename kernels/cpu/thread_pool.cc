#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <system_error>

namespace tensorkv {

// Lives on its caller's stack. Workers find it in `loops_`; it stays valid
// while it is there or `num_workers` counts somebody.
struct ThreadPool::Loop {
  // Runs iterations until none is left.
  void Run() {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      body(i);
    }
  }

  const size_t count;
  const absl::FunctionRef<void(size_t)> body;
  std::atomic<size_t> next = 0;
  // Workers inside Run, guarded by the pool's mutex.
  int num_workers = 0;
};

ThreadPool::ThreadPool(int num_threads) {
  try {
    for (int i = 1; i < num_threads; ++i) {
      threads_.emplace_back([this] { RunWorker(); });
    }
  } catch (const std::system_error&) {
    // The loops run on the threads there are.
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    work_added_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ParallelFor(size_t count,
                             absl::FunctionRef<void(size_t)> body) {
  Loop loop = {count, body};
  if (count <= 1 || threads_.empty()) return loop.Run();
  {
    MutexLock lock(&mutex_);
    loops_.push_back(&loop);
  }
  const size_t num_wanted = std::min(count - 1, threads_.size());
  for (size_t i = 0; i < num_wanted; ++i) work_added_.Signal();
  loop.Run();
  MutexLock lock(&mutex_);
  std::erase(loops_, &loop);
  while (loop.num_workers > 0) worker_left_.Wait(&mutex_);
}

void ThreadPool::RunWorker() {
  MutexLock lock(&mutex_);
  while (Loop* loop = WaitForLoop()) {
    ++loop->num_workers;
    mutex_.unlock();
    loop->Run();
    mutex_.lock();
    std::erase(loops_, loop);
    if (--loop->num_workers == 0) worker_left_.SignalAll();
  }
}

ThreadPool::Loop* ThreadPool::WaitForLoop() {
  while (loops_.empty() && !stopping_) work_added_.Wait(&mutex_);
  return loops_.empty() ? nullptr : loops_.front();
}

}  // namespace tensorkv
