#include "bench/harness/load.h"

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

// The calls that the lanes of one run share. Thread-safe.
class SharedCalls {
 public:
  SharedCalls(int64_t num_calls, const FunctionLoad::Call& call,
              std::vector<absl::Duration>* latencies)
      : call_(call), num_left_(num_calls), latencies_(latencies) {}

  void RunLane(int lane) {
    std::vector<absl::Duration> latencies;
    absl::Status status;
    while (status.ok() && num_left_.fetch_sub(1) > 0) {
      const absl::Duration start = SteadyTime();
      status = call_(lane);
      latencies.push_back(SteadyTime() - start);
    }
    MutexLock lock(&mutex_);
    if (!status.ok()) num_left_ = 0;
    status_.Update(status);
    latencies_->insert(latencies_->end(), latencies.begin(), latencies.end());
  }

  absl::Status status() {
    MutexLock lock(&mutex_);
    return status_;
  }

 private:
  const FunctionLoad::Call& call_;
  std::atomic<int64_t> num_left_;
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration>* const latencies_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status FunctionLoad::Run(int64_t num_calls,
                               std::vector<absl::Duration>* latencies) {
  SharedCalls calls(num_calls, call_, latencies);
  std::vector<std::thread> threads;
  for (int lane = 1; lane < shape().in_flight; ++lane) {
    threads.emplace_back([&calls, lane] { calls.RunLane(lane); });
  }
  calls.RunLane(0);
  for (std::thread& thread : threads) thread.join();
  return calls.status();
}

}  // namespace tensorkv::bench
