// fashion_mnist: a data-parallel training whose optimizer is the server.
// `fashion_mnist --help` lists the flags.
//
// Progress goes to the standard error, the result to the standard output. Exit
// status: 0, 1 if the training failed, 2 for wrong flags.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/fashion_mnist/command_line.h"
#include "examples/fashion_mnist/progress_display.h"
#include "examples/fashion_mnist/trainer.h"
#include "examples/fashion_mnist/worker.h"
#include "examples/fashion_mnist/worker_process.h"

namespace tensorkv::fashion_mnist {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongFlags = 2;

int Fail(const std::string& who, const absl::Status& status, int exit_status) {
  std::cerr << absl::StrCat(who, ": ", status.message(), "\n");
  return exit_status;
}

int Run(TrainingOptions options) {
  if (options.common.name_space.empty()) {
    options.common.name_space = absl::StrCat("fashion_mnist-", getpid());
  }
  ProgressDisplay display(std::cerr, isatty(STDERR_FILENO) != 0,
                          options.common.num_epochs);
  display.ShowMessage(
      absl::StrFormat("training in namespace \"%s\" of %s: %s mode, %d workers",
                      options.common.name_space, options.common.server,
                      options.mode == Mode::kSync ? "sync" : "async",
                      options.common.num_workers));
  const absl::Time start = absl::Now();
  const absl::StatusOr<double> accuracy = Train(options, display);
  if (!accuracy.ok()) {
    display.ShowMessage("training failed");
    return Fail("fashion_mnist", accuracy.status(), kFailed);
  }
  display.ShowMessage(absl::StrFormat(
      "training time: %.1f s", absl::ToDoubleSeconds(absl::Now() - start)));
  std::cout << absl::StrFormat("final test accuracy: %.4f\n", *accuracy);
  return 0;
}

int Run(const WorkerOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // No worker outlives its trainer.
  const absl::Status status = RunWorker(options, WorkerProcess::kReportFd);
  if (status.ok()) return 0;
  return Fail(absl::StrCat("worker ", options.rank), status, kFailed);
}

int Run(const HelpText& help) {
  std::cout << help.text;
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<CommandLine> command_line = ParseCommandLine(arguments);
  if (!command_line.ok()) {
    return Fail("fashion_mnist", command_line.status(), kWrongFlags);
  }
  return std::visit([](const auto& options) { return Run(options); },
                    *command_line);
}

}  // namespace
}  // namespace tensorkv::fashion_mnist

int main(int argc, char** argv) {
  return tensorkv::fashion_mnist::Main({argv + 1, argv + argc});
}
