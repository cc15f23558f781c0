#include "bench/data_path/options.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace tensorkv::bench {
namespace {

// Leaves the last row its time within two minutes.
constexpr absl::Duration kQuickTimeLimit = absl::Seconds(90);

// Exit status for a wrong command line.
constexpr int kUsage = 2;

// Flags that are texts with a meaning of their own, before they are read.
struct FlagTexts {
  std::string server_cpus = "0";
  std::string client_cpus = "1";
  int repetitions = 5;
  int trial_milliseconds = 0;
};

void AddReportFlags(CLI::App* app, Options* options) {
  app->add_option("--json", options->json_file,
                  "Write a record for each row and reference");
  app->add_option("--markdown", options->markdown_file,
                  "Write the tables; into a document, where it has the lines "
                  "that they stand between");
  app->add_option("--revision", options->revision,
                  "What the report says about the sources");
  app->add_option("--command", options->command,
                  "What the report says about the command");
}

void AddPlanFlags(CLI::App* app, Options* options, FlagTexts* texts) {
  app->add_flag("--quick", options->plan.is_quick,
                "Fewer rows and shorter trials: less than two minutes");
  app->add_option("--only", options->plan.only,
                  "Rows with this text in their names, such as push/64MiB");
  app->add_option("--repetitions", texts->repetitions,
                  "Trials of each row, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--trial_ms", texts->trial_milliseconds,
                  "Least milliseconds of a trial (default: 100; quick: 30)")
      ->check(CLI::Range(1, 60'000));
}

void AddMachineFlags(CLI::App* app, Options* options, FlagTexts* texts) {
  app->add_option("--server_cpus", texts->server_cpus,
                  "Where servers run, such as 0 or 0,2")
      ->capture_default_str();
  app->add_option("--client_cpus", texts->client_cpus,
                  "Where clients run, such as 1")
      ->capture_default_str();
  app->add_option("--server", options->tensorkv_server,
                  "Path of tensorkv-server")
      ->capture_default_str();
  app->add_option("--reference_server", options->reference_server,
                  "Path of reference_server")
      ->capture_default_str();
}

absl::Status Interpret(const FlagTexts& texts, Options* options) {
  for (const auto& [flag, text, cpus] :
       {std::tuple("--server_cpus", &texts.server_cpus, &options->server_cpus),
        std::tuple("--client_cpus", &texts.client_cpus,
                   &options->client_cpus)}) {
    absl::StatusOr<CpuList> parsed = ParseCpuList(*text);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": ", parsed.status().message()));
    }
    *cpus = *std::move(parsed);
  }
  if (options->plan.is_quick) options->plan.time_limit = kQuickTimeLimit;
  MeasureOptions& measure = options->plan.measure;
  measure.repetitions = texts.repetitions;
  measure.trial_time = absl::Milliseconds(options->plan.is_quick ? 30 : 100);
  if (texts.trial_milliseconds > 0) {
    measure.trial_time = absl::Milliseconds(texts.trial_milliseconds);
  }
  return absl::OkStatus();
}

}  // namespace

std::variant<Options, EarlyExit> ParseOptions(
    const std::vector<std::string>& arguments) {
  CLI::App app("Measures the data path beside its references.", "bench");
  Options options;
  FlagTexts texts;
  AddPlanFlags(&app, &options, &texts);
  AddReportFlags(&app, &options);
  AddMachineFlags(&app, &options, &texts);
  try {
    // The parser takes them from the end.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return EarlyExit{.text = app.help()};
    return EarlyExit{.text = absl::StrCat("bench: ", error.what(), "\n"),
                     .code = kUsage};
  }
  const absl::Status interpreted = Interpret(texts, &options);
  if (interpreted.ok()) return options;
  return EarlyExit{.text = absl::StrCat("bench: ", interpreted.message(), "\n"),
                   .code = kUsage};
}

}  // namespace tensorkv::bench
