// Keeps what the log says of a call that took long.

#ifndef TENSORKV_SERVICE_STORE_CALL_TRACE_H_
#define TENSORKV_SERVICE_STORE_CALL_TRACE_H_

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv {

// Thread-safe. Whoever handles the call records what it is about; whoever has
// it wait for longer than `slow_call` records what for.
class CallTrace {
 public:
  struct Record {
    std::string name_space;
    std::optional<CallId> call_id;
    // Says what was missing when the call had waited for slow_call, such as
    // `round 7 of "w": waiting for ranks 2`; empty if it has not waited as
    // long.
    std::string awaited;
  };

  explicit CallTrace(absl::Duration slow_call) : slow_call_(slow_call) {}

  absl::Duration slow_call() const { return slow_call_; }

  void IsAbout(absl::string_view name_space, std::optional<CallId> call_id) {
    MutexLock lock(&mutex_);
    record_.name_space = std::string(name_space);
    record_.call_id = std::move(call_id);
  }
  void WaitsFor(absl::string_view what) {
    MutexLock lock(&mutex_);
    record_.awaited = std::string(what);
  }
  Record record() const {
    MutexLock lock(&mutex_);
    return record_;
  }

 private:
  const absl::Duration slow_call_;
  mutable Mutex mutex_;
  Record record_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_TRACE_H_
