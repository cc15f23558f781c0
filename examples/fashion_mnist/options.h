// What a training is told.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_OPTIONS_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_OPTIONS_H_

#include <cstdint>
#include <string>

#include "client/compression/compression.h"
#include "client/credentials.h"
#include "contract/requests.h"
#include "tensor/rule_spec.h"

namespace tensorkv::fashion_mnist {

struct TrainingOptions {
  std::string target = "127.0.0.1:7363";
  Credentials credentials;
  std::string name_space;
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  Mode mode = Mode::kSync;
  // What the server does with gradients.
  RuleSpec rule;
  uint32_t num_workers = 4;
  uint32_t num_epochs = 8;
  // Images per step of one worker.
  uint32_t batch_size = 64;
  // How the gradients that workers push are encoded.
  CompressionOptions compression;
  // Decides the initial weights and the order of the images.
  uint64_t seed = 1;
};

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_OPTIONS_H_
