#include "bench/gpu/options.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"

namespace tensorkv::bench::gpu {
namespace {

// Exit status for a wrong command line.
constexpr int kUsage = 2;

// Fewer would make a median of little worth.
constexpr int kLeastRepetitions = 5;

void AddFlags(CLI::App* app, Options* options) {
  app->add_flag("--quick", options->plan.is_quick,
                "Smaller tensors, shorter trials, fewer rows");
  app->add_option("--only", options->plan.only,
                  "Figures with this text in their names, such as staging/");
  app->add_option("--repetitions", options->plan.measure.repetitions,
                  "Trials of each figure, of which the median counts")
      ->check(CLI::Range(kLeastRepetitions, 1000))
      ->capture_default_str();
  app->add_option("--gpu", options->gpu, "Which GPU, by its number")
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
  app->add_option("--json", options->json_file,
                  "Write a record for each comparison");
  app->add_option("--server", options->tensorkv_server,
                  "Path of tensorkv-server")
      ->capture_default_str();
}

}  // namespace

std::variant<Options, EarlyExit> ParseOptions(
    const std::vector<std::string>& arguments) {
  CLI::App app("Measures the CUDA backend beside what bounds it.",
               "gpu_benchmark");
  Options options;
  AddFlags(&app, &options);
  try {
    // The parser takes them from the end.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return EarlyExit{.text = app.help()};
    return EarlyExit{
        .text = absl::StrCat("gpu_benchmark: ", error.what(), "\n"),
        .code = kUsage};
  }
  if (options.plan.is_quick) {
    options.plan.measure.trial_time = absl::Milliseconds(30);
  }
  return options;
}

}  // namespace tensorkv::bench::gpu
