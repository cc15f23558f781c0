// The work of one worker of a training.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "examples/fashion_mnist/dataset.h"
#include "examples/fashion_mnist/network.h"
#include "examples/fashion_mnist/options.h"

namespace tensorkv::fashion_mnist {

// Reads the network's parameters from the server.
// Errors: those of Client::Pull and CheckParameters.
absl::StatusOr<Parameters> PullParameters(Client* client,
                                          const NetworkSize& size);

// Trains on the worker's shard of `images`: each step computes the gradient of
// one batch, pushes it and pulls the new weights. The weights must be in the
// namespace already; updating them is the server's affair. Calls `on_epoch`
// with the mean loss of each epoch, from 1.
//
// Every worker takes the same number of steps, whatever its shard's size.
// Errors: InvalidArgument if a shard is smaller than a batch; those of the
// client's verbs and of `on_epoch`.
absl::Status RunWorker(
    const TrainingOptions& options, uint32_t rank, const Dataset& images,
    absl::FunctionRef<absl::Status(uint32_t epoch, double loss)> on_epoch);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_WORKER_H_
