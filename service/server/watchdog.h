// Notices that a part of the server stands still.

#ifndef TENSORKV_SERVICE_SERVER_WATCHDOG_H_
#define TENSORKV_SERVICE_SERVER_WATCHDOG_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"

namespace tensorkv {

// Sends a probe through each part of a server, again and again, and knows how
// long ago each has come back. Thread-safe; asking it waits for no part.
class Watchdog {
 public:
  using Done = absl::AnyInvocable<void() &&>;

  struct Part {
    std::string name;
    // Begins a probe, without waiting for the part; has `done` called, on any
    // thread, when the part has let it through. At most one is under way.
    std::function<void(Done done)> probe;
    // Called once for each probe, if set, when the probe has been under way for
    // longer than the limit in two rounds of probes: so a process that was
    // stopped for a while does not count. Must not block, or call the Watchdog.
    std::function<void()> on_stuck = nullptr;
    // Replaces Options::limit for this part, if it is not 0.
    absl::Duration limit = absl::ZeroDuration();
  };

  struct Options {
    // The time from the end of one round of probes to the next.
    absl::Duration period = absl::Seconds(1);
    // A part that lets nothing through for that long stands still: more than a
    // machine under load delays a thread.
    absl::Duration limit = absl::Seconds(15);
    // Takes a line when a part begins to stand still, and when it goes on. Must
    // not block, or call the Watchdog. Null: nobody hears of it.
    std::function<void(absl::string_view line)> log;
  };

  // Starts. Adds the part "alarms", which are what it runs on. REQUIRES:
  // `alarms` outlives this object; when this object is destroyed, `alarms` run
  // nothing any more and no probe is under way.
  Watchdog(std::vector<Part> parts, Options options, Alarms* alarms);

  // Returns OK, or Unavailable, naming the parts that stand still.
  absl::Status status() const;

  // Age says how long ago each part has let a probe through, by name.
  struct Age {
    std::string part;
    absl::Duration age;
  };
  std::vector<Age> ages() const;

 private:
  struct Watched {
    absl::Duration last_beat;
    bool is_probed = false;
    bool is_reported = false;
    // When the probe under way began, and how many rounds have found it stuck.
    absl::Duration probed_at;
    int num_stuck = 0;
  };

  absl::Duration LimitOf(size_t i) const {
    const absl::Duration own = parts_[i].limit;
    return own == absl::ZeroDuration() ? options_.limit : own;
  }
  // Runs a round of probes, and schedules the next.
  void Probe();
  // Part `i` has let its probe through.
  void Beat(size_t i);
  // Logs which parts have begun to stand still, and which go on.
  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls on_stuck of part `i` when it is due.
  void TellIfStuck(size_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The alarms come first.
  const std::vector<Part> parts_;
  const Options options_;
  Alarms& alarms_;
  mutable Mutex mutex_;
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_WATCHDOG_H_
