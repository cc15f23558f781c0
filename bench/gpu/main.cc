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
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/servers.h"
#include "bench/data_path/peers/tensorkv_peer.h"
#include "bench/gpu/contribution_suite.h"
#include "bench/gpu/open_cuda_copies.h"
#include "bench/gpu/push_suite.h"
#include "bench/gpu/server_suite.h"
#include "bench/gpu/sizes.h"
#include "bench/gpu/staging_suite.h"
#include "bench/gpu/updates_suite.h"
#include "bench/gpu/variants.h"
#include "bench/gpu/variants_suite.h"
#include "bench/harness/flags.h"
#include "bench/harness/report.h"
#include "kernels/cuda/open_cuda_backend.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr int kFailed = 1;
constexpr int kSkipped = 77;

struct Flags {
  RunFlags run;
  int gpu = 0;  // by its number in CUDA
  std::vector<std::string> variants;
};

Sizes SizesOf(const Flags& flags, const OpenedCudaBackend& opened) {
  return FitTo(opened.memory_bytes,
               flags.run.plan.is_quick ? QuickSizes() : Sizes());
}

// Gives the GPU's memory back: the server takes what is free.
absl::Status MeasureInProcess(const Flags& flags, RowRunner* runner,
                              Report* report) {
  ASSIGN_OR_RETURN(
      const OpenedCudaBackend opened,
      OpenCudaBackend(flags.gpu, {.max_pinned_bytes = uint64_t{4} << 30}));
  ASSIGN_OR_RETURN(const std::unique_ptr<PlainCopies> copies,
                   OpenCudaCopies(flags.gpu));
  Backend* const backend = opened.backend.get();
  const Sizes sizes = SizesOf(flags, opened);
  report->Print(absl::StrCat("- GPU: ", copies->device_name()));
  report->PrintMachine();
  report->Add(MeasureLargeUpdates(backend, copies.get(), sizes, runner));
  report->Add(MeasureSmallUpdates(backend, copies.get(), sizes, runner));
  report->Add(MeasurePush(backend, sizes, runner));
  report->Add(MeasureContributions(backend, sizes, runner));
  report->Add(MeasureStaging(backend, copies.get(), sizes, runner));
  return absl::OkStatus();
}

// Each beside what servers have, with half of the memory.
absl::Status MeasureVariants(const Flags& flags, RowRunner* runner,
                             Report* report) {
  uint64_t quota_bytes = 0;
  {
    ASSIGN_OR_RETURN(const OpenedCudaBackend opened,
                     OpenCudaBackend(flags.gpu));
    quota_bytes = opened.memory_bytes / 2;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> usual,
                   OpenVariant(flags.gpu, "", quota_bytes));
  const Sizes sizes =
      FitTo(quota_bytes, flags.run.plan.is_quick ? QuickSizes() : Sizes());
  report->PrintMachine();
  const bool has_all = flags.variants == std::vector<std::string>{"all"};
  for (const std::string& name : has_all ? VariantNames() : flags.variants) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Backend> variant,
                     OpenVariant(flags.gpu, name, quota_bytes));
    report->Add(
        MeasureVariant(name, variant.get(), usual.get(), sizes, runner));
  }
  return report->WriteRecords(flags.run.json_file);
}

// A server, and a client of it.
struct Served {
  ServerProcess server;
  Peer peer;
};

absl::StatusOr<Served> Serve(ServerLauncher* launcher,
                             const std::string& device) {
  Served served;
  ASSIGN_OR_RETURN(served.server,
                   launcher->StartTensorkv(Transport::kTcp, device));
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client,
                   Client::Connect({.target = served.server.address,
                                    .timeout = kCallTimeout}));
  served.peer = TensorkvPeer(std::move(client), served.server.pid());
  return served;
}

absl::StatusOr<Section> MeasureProcesses(const Flags& flags,
                                         RowRunner* runner) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerLauncher> launcher,
      ServerLauncher::Create({.tensorkv_server = flags.run.tensorkv_server}));
  ASSIGN_OR_RETURN(const Served on_gpu,
                   Serve(launcher.get(), absl::StrCat("cuda:", flags.gpu)));
  ASSIGN_OR_RETURN(const Served on_cpu, Serve(launcher.get(), "cpu"));
  return MeasureServers(on_gpu.peer, on_cpu.peer,
                        flags.run.plan.is_quick ? QuickSizes() : Sizes(),
                        runner);
}

absl::Status MeasureAll(const Flags& flags, Report* report) {
  RowRunner runner(flags.run.plan, &std::cerr);
  if (!flags.variants.empty()) return MeasureVariants(flags, &runner, report);
  RETURN_IF_ERROR(MeasureInProcess(flags, &runner, report));
  absl::StatusOr<Section> servers = MeasureProcesses(flags, &runner);
  if (servers.ok()) {
    report->Add(*std::move(servers));
  } else {
    report->Add({.title = "A server, through gRPC",
                 .left_out = {std::string(servers.status().message())}});
  }
  report->PrintGoals(/*measured_only=*/true);
  return report->WriteRecords(flags.run.json_file);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the CUDA backend beside what bounds it.",
               "gpu_benchmark");
  Flags flags;
  AddRunFlags(&app, &flags.run);
  app.add_option("--gpu", flags.gpu, "Which GPU, by its number")
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
  app.add_option("--variant", flags.variants,
                 "Measures these choices beside those of servers, and nothing "
                 "else; all: every one (docs/gpu.md)");
  if (const auto exit_status = Parse(argc, argv, &app)) return *exit_status;
  Report report;
  const absl::Status status = MeasureAll(flags, &report);
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
