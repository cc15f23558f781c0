#include "examples/fashion_mnist/command_line.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace tensorkv::fashion_mnist {
namespace {

constexpr uint32_t kMaxWorkers = 256;
constexpr uint32_t kMaxCount = 1'000'000;

void AddCommonFlags(CommonOptions* options, CLI::App* app) {
  app->add_option("--server", options->server, "host:port of the server");
  app->add_option("--namespace", options->name_space,
                  "namespace to create (fashion_mnist-<process id>)");
  app->add_option("--data_dir", options->data_dir, "where the images are");
  app->add_option("--workers", options->num_workers, "worker processes")
      ->check(CLI::Range(1U, kMaxWorkers));
  app->add_option("--epochs", options->num_epochs, "passes over the images")
      ->check(CLI::Range(1U, kMaxCount));
  app->add_option("--batch_size", options->batch_size,
                  "images per step of one worker")
      ->check(CLI::Range(1U, kMaxCount));
  app->add_option("--seed", options->seed,
                  "of the initial weights and the order of the images");
}

// Values of flags that are not yet in the form that options have.
struct RawTrainingFlags {
  std::string mode = "sync";
  std::string rule;
  std::optional<double> learning_rate;
};

void AddTrainingFlags(RawTrainingFlags* flags, CLI::App* app) {
  app->add_option("--mode", flags->mode, "sync or async")
      ->check(CLI::IsMember({"sync", "async"}));
  app->add_option("--rule", flags->rule,
                  "what the server does with gradients, such as "
                  "'adam(learning_rate=0.001)'; sgd where not given");
  app->add_option("--learning_rate", flags->learning_rate,
                  "overrides that of the rule");
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

absl::Status Apply(const RawTrainingFlags& flags, TrainingOptions* options) {
  options->mode = flags.mode == "sync" ? Mode::kSync : Mode::kAsync;
  options->rule = DefaultRule(options->mode);
  if (!flags.rule.empty()) {
    ASSIGN_OR_RETURN(options->rule, ParseRuleSpec(flags.rule));
  }
  if (flags.learning_rate.has_value()) {
    options->rule.hyperparameters["learning_rate"] = *flags.learning_rate;
  }
  return absl::OkStatus();
}

absl::Status UsageError(const CLI::ParseError& error) {
  return absl::InvalidArgumentError(
      absl::StrReplaceAll(error.what(), {{"\n", " "}}));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(
    const std::vector<std::string>& arguments) {
  TrainingOptions training;
  WorkerOptions worker;
  RawTrainingFlags flags;
  CLI::App app(
      "Trains a network on Fashion-MNIST with worker processes that push "
      "gradients to a TensorKV server, which keeps and updates the weights.",
      "fashion_mnist");
  app.option_defaults()->always_capture_default();
  AddCommonFlags(&training.common, &app);
  AddTrainingFlags(&flags, &app);

  // Not for people: how the trainer starts its workers.
  CLI::App* worker_command = app.add_subcommand("worker")->group("");
  AddCommonFlags(&worker.common, worker_command);
  worker_command->add_option("--rank", worker.rank)->required();

  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return HelpText{app.help()};
  } catch (const CLI::ParseError& error) {
    return UsageError(error);
  }
  if (worker_command->parsed()) return worker;
  RETURN_IF_ERROR(Apply(flags, &training));
  return training;
}

std::vector<std::string> WorkerArguments(const WorkerOptions& options) {
  const CommonOptions& common = options.common;
  return {"worker",
          absl::StrCat("--server=", common.server),
          absl::StrCat("--namespace=", common.name_space),
          absl::StrCat("--data_dir=", common.data_dir),
          absl::StrCat("--workers=", common.num_workers),
          absl::StrCat("--epochs=", common.num_epochs),
          absl::StrCat("--batch_size=", common.batch_size),
          absl::StrCat("--seed=", common.seed),
          absl::StrCat("--rank=", options.rank)};
}

}  // namespace tensorkv::fashion_mnist
