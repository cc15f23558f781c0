// Keeps what the log says of a call that took long.

#ifndef TENSORKV_SERVICE_STORE_CALL_RECORD_H_
#define TENSORKV_SERVICE_STORE_CALL_RECORD_H_

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "contract/call_fields.h"

namespace tensorkv {

// Says of one call what the log of slow calls tells. Whoever handles the call
// sets what it is about; whoever has it wait for longer than `slow_call` sets
// what for. Thread-safe.
class CallRecord {
 public:
  struct Fields {
    std::string name_space;
    std::optional<CallId> call_id;
    // Says what was missing when the call had waited for slow_call, such as
    // `round 7 of "w": waiting for ranks 2`; empty if it has not waited as
    // long.
    std::string awaited;
  };

  explicit CallRecord(absl::Duration slow_call) : slow_call_(slow_call) {}

  absl::Duration slow_call() const { return slow_call_; }

  void SetCall(absl::string_view name_space, std::optional<CallId> call_id) {
    MutexLock lock(&mutex_);
    fields_.name_space = std::string(name_space);
    fields_.call_id = std::move(call_id);
  }
  void SetAwaited(absl::string_view what) {
    MutexLock lock(&mutex_);
    fields_.awaited = std::string(what);
  }
  Fields fields() const {
    MutexLock lock(&mutex_);
    return fields_;
  }

 private:
  const absl::Duration slow_call_;
  mutable Mutex mutex_;
  Fields fields_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_RECORD_H_
