// A training, seen from the process that starts the workers.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_TRAINER_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_TRAINER_H_

#include "absl/status/statusor.h"
#include "examples/fashion_mnist/options.h"
#include "examples/fashion_mnist/progress_display.h"

namespace tensorkv::fashion_mnist {

// Creates the namespace with the initial weights and the rule, lets worker
// processes train them, and measures the result of each epoch on the test
// images. Returns the last accuracy, from 0 to 1. The weights stay on the
// server.
//
// Workers push gradients summed over their batch. The rule divides them by the
// images of all workers' batches, so that in sync mode a round takes one step
// along the mean gradient, and in async mode the pushes of all workers together
// move the weights as far.
//
// Errors: those of LoadDataset and of the client's verbs (AlreadyExists: the
// namespace); Internal, naming the worker, if one ends early. No worker is
// left running.
absl::StatusOr<double> Train(const TrainingOptions& options,
                             ProgressDisplay& display);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_TRAINER_H_
