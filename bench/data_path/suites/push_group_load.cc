#include "bench/data_path/suites/push_group_load.h"

#include <thread>
#include <utility>

#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

// A call of large tensors fills a trial, and is as long as the slowest of its
// workers took: of a single one each trial would say little.
constexpr int kLeastCallsPerTrial = 3;

LoadShape ShapeOf(const PushGroup& group) {
  const auto num_workers = static_cast<int64_t>(group.workers.size());
  return {.bytes_per_call = num_workers * group.value.size_bytes(),
          .keys_per_call = num_workers,
          .least_calls_per_trial = kLeastCallsPerTrial,
          .server = group.server};
}

}  // namespace

PushGroupLoad::PushGroupLoad(PushGroup group)
    : Load(ShapeOf(group)), group_(std::move(group)) {}

absl::Status PushGroupLoad::Run(int64_t num_calls,
                                std::vector<absl::Duration>* latencies) {
  std::barrier<> barrier(static_cast<ptrdiff_t>(group_.workers.size()));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < group_.workers.size(); ++i) {
    threads.emplace_back(
        [&, i] { RunWorker(i, num_calls, &barrier, nullptr); });
  }
  RunWorker(0, num_calls, &barrier, latencies);
  for (std::thread& thread : threads) thread.join();
  return status();
}

// After an error the workers go on through the barriers without pushing, so
// that nobody waits for ever.
void PushGroupLoad::RunWorker(size_t index, int64_t num_calls,
                              std::barrier<>* barrier,
                              std::vector<absl::Duration>* latencies) {
  const bool is_first = index == 0;
  for (int64_t i = 0; i < num_calls; ++i) {
    barrier->arrive_and_wait();
    const absl::Duration start = SteadyTime();
    if (status().ok()) {
      Note(group_.workers[index]
               ->Push(group_.keys[index], group_.value)
               .status());
    }
    barrier->arrive_and_wait();
    if (!is_first) continue;
    if (status().ok()) Note(group_.await_effect(++num_calls_done_));
    latencies->push_back(SteadyTime() - start);
  }
}

absl::Status PushGroupLoad::status() {
  MutexLock lock(&mutex_);
  return status_;
}

void PushGroupLoad::Note(const absl::Status& status) {
  MutexLock lock(&mutex_);
  status_.Update(status);
}

}  // namespace tensorkv::bench
