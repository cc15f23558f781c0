// The log of what happens in a server.

#ifndef TENSORKV_SERVICE_SERVER_EVENT_LOG_H_
#define TENSORKV_SERVICE_SERVER_EVENT_LOG_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "service/store/store_observer.h"

namespace tensorkv {

// Writes a line for every event, at most kLinesPerWindow of each kind in
// kWindow: what comes beyond is counted, and the window ends with a line that
// says how many these were. So nobody fills a disk by joining and leaving.
// Thread-safe.
class EventLog final : public StoreObserver {
 public:
  static constexpr int kLinesPerWindow = 20;
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  // Writes one line, without its end. Must not block.
  using Sink = std::function<void(const std::string& line)>;

  // `alarms` outlives this object, and runs nothing any more when it goes.
  EventLog(Alarms* alarms, Sink sink);

  // Each of these functions writes a line, unless the window of its kind is
  // full; `line` is called only if its line is written.
  void Report(StoreEvent event, absl::string_view name_space,
              absl::string_view detail) override;
  void LogPeerRefused(absl::string_view reason);
  // Logs a call that was refused. Calls that take the right of an admin have a
  // window of their own. The others share the name and the window of
  // LogPeerRefused, so that whoever makes many of them hides no admin's call.
  void LogCallRefused(bool takes_admin, absl::FunctionRef<std::string()> line);
  void LogCallFailed(absl::FunctionRef<std::string()> line);
  void LogSlowCall(absl::FunctionRef<std::string()> line);

 private:
  // The kinds of lines are the values of StoreEvent, and then these.
  static constexpr size_t kPeerRefused =
      static_cast<size_t>(StoreEvent::kNumEvents);
  static constexpr size_t kAdminsCallRefused = kPeerRefused + 1;
  static constexpr size_t kCallFailed = kAdminsCallRefused + 1;
  static constexpr size_t kSlowCall = kCallFailed + 1;
  static constexpr size_t kNumKinds = kSlowCall + 1;

  struct Window {
    absl::Duration start = -absl::InfiniteDuration();
    int num_lines = 0;
    uint64_t num_suppressed = 0;
  };

  static absl::string_view NameOf(size_t kind);
  // Writes "NAME: TEXT" if Admit allows it.
  void Write(size_t kind, absl::FunctionRef<std::string()> text);
  // Counts one more line of that kind, and returns whether it may be written.
  bool Admit(size_t kind) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the kind's window with the line that says how many it suppressed.
  void ReportSuppressed(size_t kind) ABSL_LOCKS_EXCLUDED(mutex_);

  Alarms& alarms_;
  const Sink sink_;
  Mutex mutex_;
  std::array<Window, kNumKinds> windows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_EVENT_LOG_H_
