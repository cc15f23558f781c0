// Threads that share the iterations of loops.

#ifndef TENSORKV_KERNELS_CPU_THREAD_POOL_H_
#define TENSORKV_KERNELS_CPU_THREAD_POOL_H_

#include <cstddef>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "base/mutex.h"

namespace tensorkv {

// A fixed set of threads. Thread-safe: loops of several callers run side by
// side, each caller working on its own loop. Idle threads sleep.
class ThreadPool {
 public:
  // `num_threads` counts the caller of ParallelFor: 1 or less starts no
  // thread. Starts fewer if the system refuses more.
  explicit ThreadPool(int num_threads);
  // REQUIRES: no ParallelFor is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls `body` once with every index below `count`, in any order, on this
  // thread and others, and returns when all calls have. `body` must not throw
  // nor call ParallelFor.
  void ParallelFor(size_t count, absl::FunctionRef<void(size_t)> body);

 private:
  struct Loop;

  void RunWorker();
  // Waits for a loop that has iterations left, and returns it; null when
  // stopping.
  Loop* WaitForLoop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar work_added_;
  CondVar worker_left_;
  std::vector<Loop*> loops_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_THREAD_POOL_H_
