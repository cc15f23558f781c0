// A network of two dense layers that tells the class of an image.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_NETWORK_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_NETWORK_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "examples/fashion_mnist/dataset.h"
#include "tensor/tensor.h"

namespace tensorkv::fashion_mnist {

//   hidden = max(0, images W1 + b1)    scores = hidden W2 + b2
//
// The loss of one image is the cross entropy of softmax(scores) and its label.
struct NetworkSize {
  int64_t inputs = 784;
  int64_t hidden = 256;
  int64_t classes = kNumClasses;
};

inline constexpr size_t kNumParameters = 4;

// The key of each parameter, in their order.
inline constexpr std::array<absl::string_view, kNumParameters> kParameterKeys =
    {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

// W1 f32[inputs, hidden], b1 f32[hidden], W2 f32[hidden, classes],
// b2 f32[classes], in host memory.
using Parameters = std::array<Tensor, kNumParameters>;

// Returns weights drawn by He's rule from `seed`, biases zero. Equal seeds give
// equal parameters.
// Errors: those of Tensor::Allocate.
absl::StatusOr<Parameters> InitialParameters(const NetworkSize& size,
                                             uint64_t seed);

// Errors: InvalidArgument if dtypes or shapes are not those of `size`.
absl::Status CheckParameters(const NetworkSize& size,
                             const Parameters& parameters);

struct Gradient {
  Parameters sums;  // d(loss_sum) / d(parameters)
  double loss_sum = 0;
};

// Returns the loss of a batch, summed over its images, and its gradient.
// REQUIRES: CheckParameters(size, parameters) is OK for a size that fits the
// batch.
// Errors: those of Tensor::Allocate.
absl::StatusOr<Gradient> ComputeGradient(const Parameters& parameters,
                                         const Batch& batch);

// Returns how many images of the batch have their highest score at their label.
// REQUIRES: as ComputeGradient.
int64_t CountCorrect(const Parameters& parameters, const Batch& batch);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_NETWORK_H_
