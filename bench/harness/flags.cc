#include "bench/harness/flags.h"

#include "absl/time/time.h"

namespace tensorkv::bench {
namespace {

// Leaves the last row its time within two minutes.
constexpr absl::Duration kQuickTimeLimit = absl::Seconds(90);
constexpr absl::Duration kQuickTrialTime = absl::Milliseconds(30);

}  // namespace

void AddRunFlags(CLI::App* app, RunFlags* flags) {
  Plan* const plan = &flags->plan;
  app->add_flag_callback(
      "--quick",
      [plan] {
        plan->is_quick = true;
        plan->time_limit = kQuickTimeLimit;
        plan->measure.trial_time = kQuickTrialTime;
      },
      "Fewer rows and shorter trials: less than two minutes");
  app->add_option("--only", plan->only,
                  "Rows with this text in their names, such as push/64MiB");
  app->add_option("--repetitions", plan->measure.repetitions,
                  "Trials of each row, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--json", flags->json_file,
                  "Write a record for each row and reference");
  app->add_option("--server", flags->tensorkv_server, "Path of tensorkv-server")
      ->capture_default_str();
}

std::optional<int> Parse(int argc, char** argv, CLI::App* app) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace tensorkv::bench
