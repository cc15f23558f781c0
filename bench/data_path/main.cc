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

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/servers.h"
#include "bench/data_path/suites/peer_set.h"
#include "bench/data_path/suites/suites.h"
#include "bench/harness/affinity.h"
#include "bench/harness/flags.h"
#include "bench/harness/report.h"
#include "bench/harness/row_runner.h"

namespace tensorkv::bench {
namespace {

struct Flags {
  RunFlags run;
  std::string markdown_file;  // empty: none
  std::string reference_server = "bench/data_path/reference_server";
  CpuList server_cpus = {0};
  CpuList client_cpus = {1};
  int trial_milliseconds = 0;  // 0: as long as the plan has it
  // What the report says about the sources and the call.
  std::string revision = "unknown";
  std::string command = "data_path_benchmark";
};

void AddFlags(CLI::App* app, Flags* flags) {
  AddRunFlags(app, &flags->run);
  app->add_option("--trial_ms", flags->trial_milliseconds,
                  "Least milliseconds of a trial (default: 100; quick: 30)")
      ->check(CLI::Range(1, 60'000));
  app->add_option("--markdown", flags->markdown_file, "Write the tables");
  app->add_option("--server_cpus", flags->server_cpus,
                  "Where servers run, such as 0 or 0,2")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--client_cpus", flags->client_cpus,
                  "Where clients run, such as 1")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--reference_server", flags->reference_server,
                  "Path of reference_server")
      ->capture_default_str();
  app->add_option("--revision", flags->revision,
                  "What the report says about the sources");
  app->add_option("--command", flags->command,
                  "What the report says about the command");
}

// In the order of what matters most, for runs that have not time for all.
absl::Status MeasureSections(ServerLauncher* launcher, RowRunner* runner,
                             Report* report) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PeerSet> tcp,
                   PeerSet::Start(launcher, Transport::kTcp));
  report->Add(MeasureTensors(*tcp, runner));
  report->Add(MeasureOursBesideOurs(*tcp, runner));
  report->Add(MeasureBatches(*tcp, runner));
  report->Add(MeasureRules(*tcp, runner));
  report->Add(MeasureEncoded(*tcp, runner));
  report->Add(MeasureTls(*tcp, launcher, runner));
  report->Add(MeasureRounds(*tcp, runner));
  report->Add(MeasureRuleRounds(*tcp, runner));
  report->Add(MeasureHeldMemory(launcher, runner));
  report->Add(MeasureKeys(launcher, runner));
  ASSIGN_OR_RETURN(const std::unique_ptr<PeerSet> local,
                   PeerSet::Start(launcher, Transport::kUnix));
  report->Add(MeasureTensors(*local, runner));
  report->Add(MeasureLargeTensors(*tcp, runner));
  return absl::OkStatus();
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

absl::Status MeasureAll(const Flags& flags, Report* report) {
  report->Print(absl::StrCat("- command: `", flags.command,
                             "`\n- revision: ", flags.revision));
  report->PrintMachine();
  const CpuList all_cpus = AllowedCpus();
  const CpuList client_cpus =
      Available(flags.client_cpus, all_cpus, "clients", report);
  // Before any thread starts, so that all of them are bound.
  if (!client_cpus.empty()) RETURN_IF_ERROR(BindTo(client_cpus));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerLauncher> launcher,
      ServerLauncher::Create(
          {.tensorkv_server = flags.run.tensorkv_server,
           .reference_server = flags.reference_server,
           .cpus = Available(flags.server_cpus, all_cpus, "servers", report)}));
  Plan plan = flags.run.plan;
  if (flags.trial_milliseconds > 0) {
    plan.measure.trial_time = absl::Milliseconds(flags.trial_milliseconds);
  }
  RowRunner runner(plan, &std::cerr);
  RETURN_IF_ERROR(MeasureSections(launcher.get(), &runner, report));
  report->PrintGoals(/*measured_only=*/!plan.only.empty());
  RETURN_IF_ERROR(report->WriteRecords(flags.run.json_file));
  return report->WriteText(flags.markdown_file);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the data path beside its references.", "bench");
  Flags flags;
  AddFlags(&app, &flags);
  if (const auto exit_status = Parse(argc, argv, &app)) return *exit_status;
  Report report;
  const absl::Status status = MeasureAll(flags, &report);
  if (status.ok()) return 0;
  std::cerr << "bench: " << status.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
