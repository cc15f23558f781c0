// The network's parameters as entries of TensorKV calls.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_PARAMETER_ENTRIES_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_PARAMETER_ENTRIES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "examples/fashion_mnist/network.h"

namespace tensorkv::fashion_mnist {

// One entry per parameter, in the order of kParameterKeys. They share the
// tensors' buffers.
std::vector<InitEntry> InitEntries(const Parameters& parameters);
std::vector<PushEntry> PushEntries(const Parameters& parameters);
std::vector<std::string> PullKeys();

// The parameters that a pull of PullKeys, or a PushPull of PushEntries, found.
// Errors: InvalidArgument if they are not those of a network of `size`.
absl::StatusOr<Parameters> ParametersOf(const NetworkSize& size,
                                        const PullReply& reply);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_PARAMETER_ENTRIES_H_
