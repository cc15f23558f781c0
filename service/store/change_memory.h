// Bounds what a server remembers for watches.

#ifndef TENSORKV_SERVICE_STORE_CHANGE_MEMORY_H_
#define TENSORKV_SERVICE_STORE_CHANGE_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace tensorkv {

// The one account of all logs of changes. It is divided among those that have
// something to remember, so that they take no more together than its limit, but
// for the moment in which one more comes. Thread-safe; calls the logs with its
// mutex held.
class ChangeMemory {
 public:
  // Is beside the budgets, so that what is remembered has no push refused.
  static uint64_t LimitOf(uint64_t budget_bytes) {
    constexpr uint64_t kShareOfBudget = 64;
    constexpr uint64_t kMinBytes = 64 << 10;
    constexpr uint64_t kMaxBytes = 64 << 20;
    return std::clamp(budget_bytes / kShareOfBudget, kMinBytes, kMaxBytes);
  }

  explicit ChangeMemory(uint64_t limit_bytes)
      : limit_bytes_(limit_bytes), share_(limit_bytes) {}

  // Returns how many bytes each log may take, all that waits for it included.
  uint64_t share() const { return share_.load(std::memory_order_relaxed); }

  // Adds a log. `trim` has a log that takes more than share() take no more.
  void Join(const void* log, std::function<void()> trim) {
    MutexLock lock(&mutex_);
    logs_.insert_or_assign(log, std::move(trim));
    Divide();
    for (const auto& [other, trim_it] : logs_) {
      if (other != log) trim_it();
    }
  }
  // Removes a log, if it was added, whose `trim` is not called any more.
  void Leave(const void* log) {
    MutexLock lock(&mutex_);
    logs_.erase(log);
    Divide();
  }

 private:
  void Divide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    share_ = limit_bytes_ / std::max<size_t>(1, logs_.size());
  }

  const uint64_t limit_bytes_;
  std::atomic<uint64_t> share_;
  Mutex mutex_;
  absl::flat_hash_map<const void*, std::function<void()>> logs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CHANGE_MEMORY_H_
