// A program that runs beside this one.

#ifndef TENSORKV_BENCH_HARNESS_CHILD_PROCESS_H_
#define TENSORKV_BENCH_HARNESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "bench/harness/affinity.h"

namespace tensorkv::bench {

// A child whose output is read, so that it never blocks on it. It is killed
// with this object, and with the thread that started it. Thread-safe.
class ChildProcess {
 public:
  // Starts arguments[0], looked up in the PATH unless it has a slash, bound to
  // `cpus`; any, where that is empty.
  // Errors: NotFound if there is no such program; Internal.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& arguments, const CpuList& cpus);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // The first line of its output with `text`.
  // Errors: DeadlineExceeded when there is no output for `timeout`,
  // Unavailable if the output ends before; both with what came.
  absl::StatusOr<std::string> AwaitLine(absl::string_view text,
                                        absl::Duration timeout);

  // The output so far, or its beginning if it is long.
  std::string Output();
  bool has_ended();

 private:
  ChildProcess(pid_t pid, int output_fd);

  void ReadOutput();

  const pid_t pid_;
  const int output_fd_;

  Mutex mutex_;
  CondVar changed_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread reader_;  // last: it uses the others
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_CHILD_PROCESS_H_
