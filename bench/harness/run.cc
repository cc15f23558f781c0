#include "bench/harness/run.h"

#include <benchmark/benchmark.h>

#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tensorkv::bench {
namespace {

// How the names of ratios begin.
constexpr char kRatio[] = "of_";

using Results = std::map<std::string, RowResult>;  // by the name of the row

// Returns what there is to say of a row beside its figures.
std::string Label(const RowResult& result) {
  std::vector<std::string> parts;
  for (const std::string& missed : result.missed) {
    parts.push_back(absl::StrCat("missed: ", missed));
  }
  for (const std::string& reason : result.left_out) {
    parts.push_back(absl::StrCat("without ", reason));
  }
  return absl::StrJoin(parts, "; ");
}

// Measures the row in one iteration. What Google Benchmark says of the time of
// that, references included, is no figure: RowReporter leaves it out.
void Measure(const Row& row, const RunFlags& flags, RowResult* result,
             benchmark::State& state) {
  for (auto _ : state) *result = MeasureRow(row, flags.measure);
  if (!result->status.ok()) {
    state.SkipWithError(std::string(result->status.message()).c_str());
    return;
  }
  for (const auto& [name, value] : result->columns) {
    state.counters[name] = value;
  }
  for (const auto& [name, value] : result->ratios) {
    state.counters[absl::StrCat(kRatio, name)] = value;
  }
  state.SetLabel(Label(*result));
}

std::string Number(double value) {
  return value < 1000 ? absl::StrFormat("%.3g", value)
                      : absl::StrFormat("%.0f", value);
}

std::string LineOf(const RowResult& result) {
  if (!result.status.ok()) {
    return absl::StrCat("not measured: ", result.status.message());
  }
  std::string line;
  for (const char* const column :
       {"GB/s", "Mkeys/s", "p50_us", "p99_us", "cpu_s/GB", "figure"}) {
    const auto found = result.columns.find(column);
    if (found == result.columns.end()) continue;
    absl::StrAppendFormat(&line, "%7s %s ", Number(found->second), column);
  }
  for (const auto& [name, value] : result.ratios) {
    absl::StrAppendFormat(&line, " %.2f %s%s ", value, kRatio, name);
  }
  return absl::StrCat(line, " ", Label(result));
}

// Prints a line for each row.
class RowReporter final : public benchmark::BenchmarkReporter {
 public:
  explicit RowReporter(const Results* results) : results_(*results) {}

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const std::string& name = run.run_name.function_name;
      std::cout << absl::StrFormat("%-34s", name) << LineOf(results_.at(name))
                << std::endl;
    }
  }

 private:
  const Results& results_;
};

void PrintGoals(const Results& results) {
  int num_goals = 0;
  std::string missed;
  int num_missed = 0;
  for (const auto& [name, result] : results) {
    num_goals += result.num_goals;
    num_missed += static_cast<int>(result.missed.size());
    for (const std::string& each : result.missed) {
      absl::StrAppend(&missed, "  missed: ", name, ": ", each, "\n");
    }
  }
  std::cout << "\nGoals met: " << num_goals - num_missed << " of " << num_goals
            << "\n"
            << missed;
}

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
  app->add_option("--revision", flags->revision,
                  "What the records say about the sources");
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
  benchmark::AddCustomContext("revision", flags.revision);
  Results results;
  for (const Row& row : rows) {
    if (flags.is_quick && !row.is_quick) continue;
    benchmark::RegisterBenchmark(
        row.name.c_str(), [&](benchmark::State& state) {
          Measure(row, flags, &results[row.name], state);
        });
  }
  RowReporter reporter(&results);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  PrintGoals(results);
}

}  // namespace tensorkv::bench
