// What a training and its workers are told.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_OPTIONS_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_OPTIONS_H_

#include <cstdint>
#include <string>

#include "contract/requests.h"
#include "tensor/rule_spec.h"

namespace tensorkv::fashion_mnist {

// What trainer and workers must agree on.
struct CommonOptions {
  std::string server = "127.0.0.1:7363";
  std::string name_space;
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  uint32_t num_workers = 4;
  uint32_t num_epochs = 8;
  // Images per step of one worker.
  uint32_t batch_size = 64;
  // Of the initial weights and the order of the images.
  uint64_t seed = 1;
};

struct TrainingOptions {
  CommonOptions common;
  Mode mode = Mode::kSync;
  // What the server does with gradients.
  RuleSpec rule;
  // Started once per worker, with the arguments of WorkerArguments.
  std::string worker_executable = "/proc/self/exe";
};

struct WorkerOptions {
  CommonOptions common;
  uint32_t rank = 0;
};

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_OPTIONS_H_
