// A training: the model on the server, and workers that push to it.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_TRAINER_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_TRAINER_H_

#include <ostream>

#include "absl/status/statusor.h"
#include "examples/fashion_mnist/options.h"

namespace tensorkv::fashion_mnist {

// Creates the namespace with the initial weights and the rule, lets workers
// train them, each on a thread and with a client of its own, and measures the
// result of each epoch on the test images, a line of `progress` each. Returns
// the last accuracy, from 0 to 1. The weights stay on the server.
//
// Workers push gradients summed over their batch. The rule divides them by the
// images of all workers' batches, so that in sync mode a round takes one step
// along the mean gradient, and in async mode the pushes of all workers together
// move the weights as far.
//
// Errors: those of LoadDataset and of the client's verbs (AlreadyExists: the
// namespace); that of the first worker that fails, which it names. The
// namespace of a training that failed is deleted.
absl::StatusOr<double> Train(const TrainingOptions& options,
                             std::ostream& progress);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_TRAINER_H_
