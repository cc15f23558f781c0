// Measures how fast tensors reach the server and come back, beside what bounds
// it and what one would use instead. tools/bench builds and runs it;
// docs/performance.md says what the rows mean.
//
// Exit status: 0 when everything that could be measured was, 1 if nothing can
// be, 2 for wrong flags.

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/options.h"
#include "bench/data_path/suites/calls_suite.h"
#include "bench/data_path/suites/keys_suite.h"
#include "bench/data_path/suites/rounds_suite.h"
#include "bench/harness/affinity.h"
#include "bench/harness/figures_file.h"
#include "bench/harness/goals.h"
#include "bench/harness/machine.h"
#include "bench/harness/records_json.h"
#include "bench/harness/section_text.h"

namespace tensorkv::bench {
namespace {

// The sections of a run, printed as they are done.
class Report {
 public:
  void Print(const std::string& text) {
    std::cout << text << std::endl;
    absl::StrAppend(&text_, text, "\n");
  }

  void Add(Section section) {
    const bool is_empty = section.rows.empty() && section.figures.empty() &&
                          section.left_out.empty();
    if (is_empty) return;
    Print(SectionText(section));
    sections_.push_back(std::move(section));
  }

  const std::vector<Section>& sections() const { return sections_; }
  const std::string& text() const { return text_; }

 private:
  std::vector<Section> sections_;
  std::string text_;
};

std::string Introduction(const Options& options) {
  std::string text = absl::StrCat("- command: `", options.command, "`\n",
                                  "- revision: ", options.revision, "\n");
  for (const auto& [name, value] : DescribeMachine()) {
    absl::StrAppend(&text, "- ", name, ": ", value, "\n");
  }
  return text;
}

// In the order of what matters most, for runs that have not time for all.
absl::Status MeasureSections(const CpuList& all_cpus, ServerLauncher* launcher,
                             RowRunner* runner, Report* report) {
  const Plan& plan = runner->plan();
  ASSIGN_OR_RETURN(const std::unique_ptr<PeerSet> tcp,
                   PeerSet::Start(launcher, Transport::kTcp));
  ConnectionCounter counter(tcp.get());
  report->Add(MeasureCalls("One tensor, TCP", Unit::kGigabytesPerSecond,
                           TensorWorkloads(plan, Transport::kTcp), *tcp,
                           &counter, runner));
  report->Add(MeasureOursBesideOurs(*tcp, &counter, runner));
  report->Add(MeasureCalls("Batches, TCP", Unit::kMillionKeysPerSecond,
                           BatchWorkloads(plan), *tcp, &counter, runner));
  report->Add(MeasureRounds(*tcp, &counter, runner));
  report->Add(MeasureSum(all_cpus, runner));
  report->Add(MeasureKeys(launcher, runner));
  ASSIGN_OR_RETURN(const std::unique_ptr<PeerSet> local,
                   PeerSet::Start(launcher, Transport::kUnix));
  report->Add(MeasureCalls("One tensor, Unix socket", Unit::kGigabytesPerSecond,
                           TensorWorkloads(plan, Transport::kUnix), *local,
                           &counter, runner));
  report->Add(MeasureCalls("One large tensor, TCP", Unit::kGigabytesPerSecond,
                           LastWorkloads(plan), *tcp, &counter, runner));
  return absl::OkStatus();
}

// All goals; of a run of some rows, those about them.
std::vector<GoalResult> GoalsOf(const Plan& plan,
                                const std::vector<Section>& sections) {
  std::vector<GoalResult> results = CheckGoals(sections);
  if (plan.only.empty()) return results;
  results.erase(std::remove_if(results.begin(), results.end(),
                               [](const GoalResult& result) {
                                 return !result.value.has_value();
                               }),
                results.end());
  return results;
}

// `wanted`, or none where the machine lacks one of them.
CpuList Available(const CpuList& wanted, const CpuList& allowed,
                  const char* who, Report* report) {
  for (const int cpu : wanted) {
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
      report->Print(absl::StrCat("- ", who, " are not pinned: no CPU ", cpu));
      return {};
    }
  }
  return wanted;
}

absl::Status MeasureAll(const Options& options, Report* report) {
  report->Print(Introduction(options));
  const CpuList all_cpus = AllowedCpus();
  const CpuList client_cpus =
      Available(options.client_cpus, all_cpus, "clients", report);
  // Before any thread starts, so that all of them are bound.
  if (!client_cpus.empty()) RETURN_IF_ERROR(BindTo(client_cpus));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerLauncher> launcher,
      ServerLauncher::Create({.tensorkv_server = options.tensorkv_server,
                              .reference_server = options.reference_server,
                              .cpus = Available(options.server_cpus, all_cpus,
                                                "servers", report)}));
  RowRunner runner(options.plan, &std::cerr);
  RETURN_IF_ERROR(MeasureSections(all_cpus, launcher.get(), &runner, report));
  const std::vector<GoalResult> goals =
      GoalsOf(options.plan, report->sections());
  if (!goals.empty()) report->Print(GoalsText(goals));
  return absl::OkStatus();
}

absl::Status WriteFiles(const Options& options, const Report& report) {
  if (!options.json_file.empty()) {
    RETURN_IF_ERROR(
        WriteTextFile(options.json_file, RecordsJson(report.sections())));
  }
  if (options.markdown_file.empty()) return absl::OkStatus();
  return UpdateFigures(options.markdown_file, report.text());
}

int Main(int argc, char** argv) {
  const std::variant<Options, EarlyExit> parsed =
      ParseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    (exit->code == 0 ? std::cout : std::cerr) << exit->text;
    return exit->code;
  }
  const Options& options = std::get<Options>(parsed);
  Report report;
  absl::Status status = MeasureAll(options, &report);
  if (status.ok()) status = WriteFiles(options, report);
  if (status.ok()) return 0;
  std::cerr << "bench: " << status.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
