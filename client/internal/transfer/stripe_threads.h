// Threads that carry the stripes of calls.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_THREADS_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_THREADS_H_

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "base/mutex.h"

namespace tensorkv {

class StripeTeam;

// A few threads that calls share. They start when they are first needed and
// stay. Thread-safe.
//
// A call takes as many as are idle, instead of waiting for more: all stripes
// of a call must run at once, so calls that each held some and waited for the
// rest would wait for ever; and while many calls run, their own threads are
// enough to keep the connections busy.
class StripeThreads {
 public:
  explicit StripeThreads(int max_threads) : max_threads_(max_threads) {}
  // REQUIRES: no team is left.
  ~StripeThreads();

  // Returns a team of the calling thread and as many idle ones as there are, at
  // most `most` in all. Does not wait. REQUIRES: most > 0.
  StripeTeam Assemble(int most);

 private:
  friend class StripeTeam;
  using Work = absl::FunctionRef<void(int)>;

  // A member's share of a team's work.
  struct Task {
    Work work;
    int index;
    int* num_running;  // guarded by mutex_
  };

  // Does what StripeTeam::Run says.
  void Run(int team_size, Work work);
  void Release(int num_threads);
  // Starts one more thread. Returns false if the system has none to give.
  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Serve();

  const int max_threads_;

  Mutex mutex_;
  CondVar has_work_;
  CondVar has_finished_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int num_taken_ ABSL_GUARDED_BY(mutex_) = 0;  // at most as many as threads_
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

// The calling thread and some threads of a pool, until destruction. The pool
// outlives it. Confined to the calling thread.
class StripeTeam {
 public:
  StripeTeam(StripeTeam&& other) noexcept
      : pool_(other.pool_), size_(std::exchange(other.size_, 1)) {}
  ~StripeTeam() { pool_.Release(size_ - 1); }

  int size() const { return size_; }

  // Calls work(0) on the calling thread and work(1) to work(size - 1) on the
  // others, at the same time; returns when all have returned.
  void Run(absl::FunctionRef<void(int)> work) { pool_.Run(size_, work); }

 private:
  friend class StripeThreads;
  StripeTeam(StripeThreads& pool, int size) : pool_(pool), size_(size) {}

  StripeThreads& pool_;
  int size_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_THREADS_H_
