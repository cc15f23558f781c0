// What concurrent clients have done, and what they were answered.

#ifndef TENSORKV_TESTS_HISTORY_HISTORY_H_
#define TENSORKV_TESTS_HISTORY_HISTORY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv::testing {

// A call that ended well.
struct HistoryEvent {
  enum class Kind { kPush, kPull, kStep, kRound, kBarrier };

  Kind kind = Kind::kPush;
  int client = 0;
  // On one clock for all clients.
  absl::Duration begin;
  absl::Duration end;
  // Of pushes, pulls and rounds. A key starts at version 1 with the value 0,
  // and each push adds its amount.
  std::string key;
  Version version = 0;
  int64_t amount = 0;    // pushed
  int64_t value = 0;     // pulled
  bool is_torn = false;  // pulled: not all elements are the value
  // Of steps: a worker's push of a step, up to the moment that it may go on.
  // Of rounds: a worker's contribution of `amount` to the step of a key, until
  // it has read the value that contains it.
  Step step = 0;
  // Of barriers: which one, by name.
  std::string barrier;
};

// Takes events down. Thread-safe.
class History {
 public:
  void Add(HistoryEvent event) {
    MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<HistoryEvent> events() const {
    MutexLock lock(&mutex_);
    return events_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<HistoryEvent> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_HISTORY_HISTORY_H_
