// The work of one worker of a training.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_H_

#include "absl/status/status.h"
#include "examples/fashion_mnist/options.h"

namespace tensorkv::fashion_mnist {

// Trains on the worker's shard of the images: each step computes the gradient
// of one batch, pushes it, pulls the new weights, and reports to `report_fd`.
// The weights must be in the namespace already; updating them is the server's
// affair.
//
// Every worker takes the same number of steps, whatever its shard's size.
// Errors: InvalidArgument if a shard is smaller than a batch; those of
// LoadDataset, the client's verbs and WriteReport.
absl::Status RunWorker(const WorkerOptions& options, int report_fd);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_H_
