// fashion_mnist: a data-parallel training whose optimizer is the server.
// `fashion_mnist --help` lists the flags.
//
// Progress goes to the standard error, the result to the standard output. Exit
// status: 0, 1 if the training failed, 2 for wrong flags.

#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "examples/fashion_mnist/options.h"
#include "examples/fashion_mnist/trainer.h"
#include "tensor/rule_spec.h"

namespace tensorkv::fashion_mnist {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongFlags = 2;
constexpr uint32_t kMaxWorkers = 256;
constexpr uint32_t kMaxCount = 1'000'000;
// All but the weights of the hidden layer, which are 98% of the bytes, is
// smaller: gradients of the last layer are so much larger that no threshold
// fits both.
constexpr size_t kMinCompressedBytes = 64 << 10;

struct Flags {
  TrainingOptions options;
  std::string mode = "sync";
  std::string rule;
  std::optional<double> learning_rate;
  std::string compression = "none";
};

void AddFlags(CLI::App* app, Flags* flags) {
  TrainingOptions* const options = &flags->options;
  app->option_defaults()->always_capture_default();
  app->add_option("--target", options->target, "host:port of the server");
  app->add_option("--tls_ca", options->credentials.tls_ca,
                  "PEM file of who signs the server's certificate; without it "
                  "nothing is encrypted");
  app->add_option("--tls_cert", options->credentials.tls_cert,
                  "PEM file of the workers' certificate");
  app->add_option("--tls_key", options->credentials.tls_key,
                  "PEM file of its key");
  app->add_option("--namespace", options->name_space,
                  "namespace to create (fashion_mnist-<process id>)");
  app->add_option("--data_dir", options->data_dir, "where the images are");
  app->add_option("--workers", options->num_workers, "threads that train")
      ->check(CLI::Range(1U, kMaxWorkers));
  app->add_option("--epochs", options->num_epochs, "passes over the images")
      ->check(CLI::Range(1U, kMaxCount));
  app->add_option("--batch_size", options->batch_size,
                  "images per step of one worker")
      ->check(CLI::Range(1U, kMaxCount));
  app->add_option("--seed", options->seed,
                  "of the initial weights and the order of the images");
  app->add_option("--mode", flags->mode, "sync or async")
      ->check(CLI::IsMember({"sync", "async"}));
  app->add_option("--rule", flags->rule,
                  "what the server does with gradients, such as "
                  "'adam(learning_rate=0.001)'; sgd where not given");
  app->add_option("--learning_rate", flags->learning_rate,
                  "overrides that of the rule");
  app->add_option("--compression", flags->compression,
                  "of the hidden layer's gradients: none, 2bit:0.05, "
                  "topk:0.01, f16, ...");
}

// In async mode gradients are some updates old, and momentum would build up
// what they overshoot.
RuleSpec DefaultRule(Mode mode) {
  if (mode == Mode::kSync) {
    return {.name = "sgd",
            .hyperparameters = {{"learning_rate", 0.05}, {"momentum", 0.9}}};
  }
  return {.name = "sgd", .hyperparameters = {{"learning_rate", 0.1}}};
}

absl::StatusOr<TrainingOptions> OptionsOf(const Flags& flags) {
  TrainingOptions options = flags.options;
  options.mode = flags.mode == "sync" ? Mode::kSync : Mode::kAsync;
  options.rule = DefaultRule(options.mode);
  if (!flags.rule.empty()) {
    ASSIGN_OR_RETURN(options.rule, ParseRuleSpec(flags.rule));
  }
  if (flags.learning_rate.has_value()) {
    options.rule.hyperparameters["learning_rate"] = *flags.learning_rate;
  }
  ASSIGN_OR_RETURN(const Compression compression,
                   Compression::Parse(flags.compression));
  options.compression.rules = {{"", compression}};
  options.compression.min_bytes = kMinCompressedBytes;
  if (options.name_space.empty()) {
    options.name_space = absl::StrCat("fashion_mnist-", getpid());
  }
  return options;
}

int Fail(const absl::Status& status, int exit_status) {
  std::cerr << "fashion_mnist: " << status.message() << "\n";
  return exit_status;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Trains a network on Fashion-MNIST with workers that push gradients to a "
      "TensorKV server, which keeps and updates the weights.",
      "fashion_mnist");
  Flags flags;
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongFlags;
  }
  const absl::StatusOr<TrainingOptions> options = OptionsOf(flags);
  if (!options.ok()) return Fail(options.status(), kWrongFlags);
  std::cerr << absl::StrFormat(
      "training in namespace \"%s\" of %s: %s mode, %d workers\n",
      options->name_space, options->target, flags.mode, options->num_workers);
  const absl::Time start = absl::Now();
  const absl::StatusOr<double> accuracy = Train(*options, std::cerr);
  if (!accuracy.ok()) return Fail(accuracy.status(), kFailed);
  std::cerr << absl::StrFormat("training time: %.1f s\n",
                               absl::ToDoubleSeconds(absl::Now() - start));
  std::cout << absl::StrFormat("final test accuracy: %.4f\n", *accuracy);
  return 0;
}

}  // namespace
}  // namespace tensorkv::fashion_mnist

int main(int argc, char** argv) {
  return tensorkv::fashion_mnist::Main(argc, argv);
}
