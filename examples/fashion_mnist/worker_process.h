// A worker in a process of its own, as its trainer sees it.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_PROCESS_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/fashion_mnist/step_report.h"

namespace tensorkv::fashion_mnist {

// A child process and the pipe that its reports come through. Not thread-safe.
class WorkerProcess {
 public:
  // Where a worker finds its end of the pipe.
  static constexpr int kReportFd = 3;

  // Starts `executable` with `arguments`.
  // Errors: Unavailable if the system refuses.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(
      const std::string& executable, const std::vector<std::string>& arguments);

  // Kills the process if it still runs: a worker holds nothing that this
  // could spoil.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Becomes readable when ReadReports has something to return.
  int report_fd() const { return report_fd_; }

  // See ReportReader::Read; empty when the process has ended, or nearly.
  absl::StatusOr<std::vector<StepReport>> ReadReports() {
    return reader_.Read();
  }

  // Waits for the end of the process.
  // Errors: Internal, saying how it ended, unless with exit status 0.
  absl::Status Wait();

 private:
  WorkerProcess(pid_t pid, int report_fd)
      : pid_(pid), report_fd_(report_fd), reader_(report_fd) {}

  const pid_t pid_;
  const int report_fd_;
  ReportReader reader_;
  bool has_ended_ = false;
};

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_PROCESS_H_
