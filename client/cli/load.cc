#include "client/cli/load.h"

#include <algorithm>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/cli/metadata_text.h"

namespace tensorkv {
namespace {

// Holds what all threads of a load have seen. Thread-safe.
class Calls {
 public:
  // Returns whether another call is to be made.
  bool Add(absl::Duration time, const absl::Status& status) {
    MutexLock lock(&mutex_);
    status_.Update(status);
    if (status.ok()) times_.push_back(time);
    return status_.ok();
  }

  absl::StatusOr<LoadResult> Result(absl::Duration duration) {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    std::sort(times_.begin(), times_.end());
    const auto quantile = [this](size_t percent) {
      return times_[(times_.size() - 1) * percent / 100];
    };
    return LoadResult{.num_calls = times_.size(),
                      .duration = duration,
                      .median = quantile(50),
                      .p99 = quantile(99)};
  }

 private:
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration> times_ ABSL_GUARDED_BY(mutex_);
};

std::string MillisecondsText(absl::Duration time) {
  return absl::StrFormat("%.3f ms", absl::ToDoubleMilliseconds(time));
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(
    int num_threads, absl::Duration duration,
    const std::function<absl::Status(int thread)>& call) {
  Calls calls;
  const absl::Time start = absl::Now();
  const auto make_calls = [&](int thread) {
    for (absl::Time begin = absl::Now();;) {
      const absl::Status status = call(thread);
      const absl::Time end = absl::Now();
      if (!calls.Add(end - begin, status) || end - start >= duration) return;
      begin = end;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) threads.emplace_back(make_calls, i);
  for (std::thread& thread : threads) thread.join();
  return calls.Result(absl::Now() - start);
}

std::string LoadTable(const std::vector<LoadResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"call", "size", "calls", "calls/s", "rate", "p50", "p99"}};
  for (const LoadResult& result : results) {
    const double per_second =
        result.num_calls / absl::ToDoubleSeconds(result.duration);
    rows.push_back(
        {result.call, ByteText(result.bytes_per_call),
         absl::StrCat(result.num_calls), absl::StrFormat("%.1f", per_second),
         absl::StrCat(ByteText(static_cast<uint64_t>(per_second *
                                                     result.bytes_per_call)),
                      "/s"),
         MillisecondsText(result.median), MillisecondsText(result.p99)});
  }
  return TableText(std::move(rows));
}

}  // namespace tensorkv
