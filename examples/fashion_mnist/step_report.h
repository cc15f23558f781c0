// What a worker tells the trainer after each step, through a pipe.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_STEP_REPORT_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_STEP_REPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorkv::fashion_mnist {

struct StepReport {
  uint32_t epoch = 0;      // from 1
  uint32_t step = 0;       // of the epoch, from 1
  uint32_t num_steps = 0;  // of every epoch
  float mean_loss = 0;     // over the step's batch

  friend bool operator==(const StepReport&, const StepReport&) = default;
};

// Sends a report through the pipe `fd`; blocks while the pipe is full.
// Errors: Unavailable if nobody reads it any more (REQUIRES: SIGPIPE is
// ignored).
absl::Status WriteReport(int fd, const StepReport& report);

// Reads reports from a pipe that it does not own. Not thread-safe.
class ReportReader {
 public:
  explicit ReportReader(int fd) : fd_(fd) {}

  // The reports that have arrived; waits for the first. Empty when the writer
  // has closed the pipe.
  // Errors: Unavailable if reading fails.
  absl::StatusOr<std::vector<StepReport>> Read();

 private:
  std::vector<StepReport> TakeWholeReports();

  const int fd_;
  // Bytes of reports not handed out yet: used_ of them.
  std::array<char, 64 * sizeof(StepReport)> buffer_;
  size_t used_ = 0;
};

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_STEP_REPORT_H_
