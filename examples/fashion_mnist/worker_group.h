// All workers of one training.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_GROUP_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/fashion_mnist/step_report.h"
#include "examples/fashion_mnist/worker_process.h"

namespace tensorkv::fashion_mnist {

// Worker processes by rank. They end with the group. Not thread-safe.
class WorkerGroup {
 public:
  // Starts one process per element of `arguments`, which is by rank.
  // Errors: Unavailable if the system refuses.
  static absl::StatusOr<std::unique_ptr<WorkerGroup>> Start(
      const std::string& executable,
      const std::vector<std::vector<std::string>>& arguments);

  // The reports that have arrived; waits for the first. Empty when all workers
  // have ended well.
  // Errors: Internal, naming rank and reason, if a worker ended otherwise.
  absl::StatusOr<std::vector<StepReport>> NextReports();

 private:
  WorkerGroup() = default;

  absl::StatusOr<std::vector<size_t>> WaitForReadable();
  absl::Status Collect(size_t rank, std::vector<StepReport>* reports);

  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::vector<size_t> running_;  // ranks
};

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_GROUP_H_
