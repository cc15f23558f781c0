#include "bench/harness/run.h"

#include <benchmark/benchmark.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv::bench {
namespace {

struct Summary {
  int num_goals = 0;
  std::vector<std::string> missed;
};

// Fills in the columns. Of Google Benchmark's own times the row has one call of
// measuring in turns, references included: they say nothing.
void Measure(const Row& row, const RunFlags& flags, Summary* summary,
             benchmark::State& state) {
  RowResult result;
  for (auto _ : state) result = MeasureRow(row, flags.measure);
  if (!result.status.ok()) {
    state.SkipWithError(std::string(result.status.message()).c_str());
    return;
  }
  for (const auto& [name, value] : result.columns) state.counters[name] = value;
  std::vector<std::string> label;
  summary->num_goals += result.num_goals;
  for (const std::string& missed : result.missed) {
    label.push_back(absl::StrCat("missed: ", missed));
    summary->missed.push_back(absl::StrCat(row.name, ": ", missed));
  }
  for (const std::string& reason : result.left_out) {
    label.push_back(absl::StrCat("without ", reason));
  }
  state.SetLabel(absl::StrJoin(label, "; "));
}

// Prints the columns of a row, and not Google Benchmark's own times.
class RowReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      std::cout << absl::StrFormat("%-32s", run.run_name.function_name);
      if (run.error_occurred)
        std::cout << "  not measured: " << run.error_message;
      for (const auto& [name, counter] : run.counters) {
        std::cout << absl::StrFormat("  %s=%.4g", name, counter.value);
      }
      if (!run.report_label.empty()) std::cout << "  " << run.report_label;
      std::cout << std::endl;
    }
  }
};

}  // namespace

void AddRunFlags(CLI::App* app, RunFlags* flags) {
  app->add_flag_callback(
      "--quick",
      [flags] {
        flags->is_quick = true;
        flags->measure.trial_time = absl::Milliseconds(30);
      },
      "Fewer rows and shorter trials: less than two minutes");
  app->add_option("--only", flags->only,
                  "Rows whose names match, such as push/64MiB");
  app->add_option("--repetitions", flags->measure.repetitions,
                  "Trials of each row, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option_function<int>(
         "--trial_ms",
         [flags](int milliseconds) {
           flags->measure.trial_time = absl::Milliseconds(milliseconds);
         },
         "Least milliseconds of a trial (default: 100; quick: 30)")
      ->check(CLI::Range(1, 60'000));
  app->add_option("--json", flags->json_file, "Write a record for each row");
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

void RunRows(const std::vector<Row>& rows, const RunFlags& flags) {
  // One call of Measure fills any time.
  std::vector<std::string> arguments = {
      "bench", "--benchmark_min_time=0.000000001",
      absl::StrCat("--benchmark_filter=", flags.only)};
  if (!flags.json_file.empty()) {
    arguments.push_back("--benchmark_out_format=json");
    arguments.push_back(absl::StrCat("--benchmark_out=", flags.json_file));
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  Summary summary;
  for (const Row& row : rows) {
    if (flags.is_quick && !row.is_quick) continue;
    benchmark::RegisterBenchmark(
        row.name.c_str(),
        [&](benchmark::State& state) { Measure(row, flags, &summary, state); });
  }
  RowReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  std::cout << "\nGoals met: "
            << summary.num_goals - static_cast<int>(summary.missed.size())
            << " of " << summary.num_goals << "\n";
  for (const std::string& missed : summary.missed) {
    std::cout << "  missed: " << missed << "\n";
  }
}

}  // namespace tensorkv::bench
