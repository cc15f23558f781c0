// Measures the CUDA backend on a GPU, each figure beside what bounds it.
// docs/gpu.md says how to run it and what the figures mean.
//
// Exit status: 0 when everything that could be measured was, whether the goals
// are met or not; 1 if nothing can be; 2 for wrong flags; 77, which means
// skipped, where there is no GPU that this build can use.

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/servers.h"
#include "bench/data_path/peers/tensorkv_peer.h"
#include "bench/gpu/comparison_text.h"
#include "bench/gpu/open_cuda_copies.h"
#include "bench/gpu/options.h"
#include "bench/gpu/push_suite.h"
#include "bench/gpu/server_suite.h"
#include "bench/gpu/sizes.h"
#include "bench/gpu/staging_suite.h"
#include "bench/gpu/updates_suite.h"
#include "bench/harness/figures_file.h"
#include "bench/harness/machine.h"
#include "kernels/cuda/open_cuda_backend.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr int kFailed = 1;
constexpr int kSkipped = 77;

// The tables of a run, printed as they are done.
class Report {
 public:
  void Add(ComparisonTable table) {
    if (table.comparisons.empty() && table.left_out.empty()) return;
    std::cout << ComparisonText(table) << std::endl;
    tables_.push_back(std::move(table));
  }

  const std::vector<ComparisonTable>& tables() const { return tables_; }

 private:
  std::vector<ComparisonTable> tables_;
};

void PrintMachine(const std::string& gpu) {
  std::cout << "- GPU: " << gpu << "\n";
  for (const auto& [name, value] : DescribeMachine()) {
    std::cout << "- " << name << ": " << value << "\n";
  }
  std::cout << std::endl;
}

Sizes SizesOf(const Options& options, const OpenedCudaBackend& opened) {
  return FitTo(opened.memory_bytes,
               options.plan.is_quick ? QuickSizes() : Sizes());
}

// Gives the GPU's memory back: the server takes what is free.
absl::Status MeasureInProcess(const Options& options, RowRunner* runner,
                              Report* report) {
  ASSIGN_OR_RETURN(const OpenedCudaBackend opened,
                   OpenCudaBackend(options.gpu));
  ASSIGN_OR_RETURN(const std::unique_ptr<PlainCopies> copies,
                   OpenCudaCopies(options.gpu));
  Backend* const backend = opened.backend.get();
  const Sizes sizes = SizesOf(options, opened);
  PrintMachine(copies->device_name());
  report->Add(MeasureLargeUpdates(backend, copies.get(), sizes, runner));
  report->Add(MeasureSmallUpdates(backend, copies.get(), sizes, runner));
  report->Add(MeasurePush(backend, sizes, runner));
  report->Add(MeasureStaging(backend, copies.get(), sizes, runner));
  return absl::OkStatus();
}

// A server, and a client of it.
struct Served {
  ServerProcess server;
  std::unique_ptr<TensorkvPeer> peer;
};

absl::StatusOr<Served> Serve(ServerLauncher* launcher,
                             const std::string& device) {
  Served served;
  ASSIGN_OR_RETURN(served.server,
                   launcher->StartTensorkv(Transport::kTcp, device));
  ASSIGN_OR_RETURN(served.peer, TensorkvPeer::Create(served.server.address,
                                                     served.server.pid()));
  return served;
}

absl::StatusOr<ComparisonTable> MeasureProcesses(const Options& options,
                                                 RowRunner* runner) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerLauncher> launcher,
      ServerLauncher::Create({.tensorkv_server = options.tensorkv_server}));
  ASSIGN_OR_RETURN(const Served on_gpu,
                   Serve(launcher.get(), absl::StrCat("cuda:", options.gpu)));
  ASSIGN_OR_RETURN(const Served on_cpu, Serve(launcher.get(), "cpu"));
  return MeasureServers(on_gpu.peer.get(), on_cpu.peer.get(),
                        options.plan.is_quick ? QuickSizes() : Sizes(), runner);
}

absl::Status MeasureAll(const Options& options, Report* report) {
  RowRunner runner(options.plan, &std::cerr);
  RETURN_IF_ERROR(MeasureInProcess(options, &runner, report));
  absl::StatusOr<ComparisonTable> servers = MeasureProcesses(options, &runner);
  if (servers.ok()) {
    report->Add(*std::move(servers));
  } else {
    report->Add({.title = "A server, through gRPC",
                 .left_out = {std::string(servers.status().message())}});
  }
  if (options.json_file.empty()) return absl::OkStatus();
  return WriteTextFile(options.json_file, ComparisonsJson(report->tables()));
}

int Main(int argc, char** argv) {
  const std::variant<Options, EarlyExit> parsed =
      ParseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    (exit->code == 0 ? std::cout : std::cerr) << exit->text;
    return exit->code;
  }
  Report report;
  const absl::Status status = MeasureAll(std::get<Options>(parsed), &report);
  if (status.ok()) return 0;
  const bool is_skipped = absl::IsFailedPrecondition(status);
  std::cerr << "gpu_benchmark: " << (is_skipped ? "skipped: " : "")
            << status.message() << "\n";
  return is_skipped ? kSkipped : kFailed;
}

}  // namespace
}  // namespace tensorkv::bench::gpu

int main(int argc, char** argv) {
  return tensorkv::bench::gpu::Main(argc, argv);
}
