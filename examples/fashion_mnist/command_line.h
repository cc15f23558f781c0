// The flags of the example.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_COMMAND_LINE_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_COMMAND_LINE_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/fashion_mnist/options.h"

namespace tensorkv::fashion_mnist {

// Asked for with --help.
struct HelpText {
  std::string text;
};

using CommandLine = std::variant<TrainingOptions, WorkerOptions, HelpText>;

// Reads the arguments that follow the program's name. An empty namespace means
// that none was given.
// Errors: InvalidArgument, in one line.
absl::StatusOr<CommandLine> ParseCommandLine(
    const std::vector<std::string>& arguments);

// The arguments that ParseCommandLine reads as `options`.
std::vector<std::string> WorkerArguments(const WorkerOptions& options);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_COMMAND_LINE_H_
