// Measures the CUDA backend on a GPU, each figure beside what bounds it.
// docs/gpu.md says how to run it and what the figures mean.
//
// Exit status: 0 when everything that could be measured was, whether the goals
// are met or not; 1 if nothing can be; 2 for wrong flags; 77, which means
// skipped, where there is no GPU that this build can use.

#include <benchmark/benchmark.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/loads.h"
#include "bench/gpu/rows.h"
#include "bench/gpu/runtime.h"
#include "bench/gpu/variants.h"
#include "bench/harness/run.h"
#include "bench/harness/servers.h"
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

void Append(std::vector<Row> more, std::vector<Row>* rows) {
  std::ranges::move(more, std::back_inserter(*rows));
}

// Returns rows of a server on the GPU beside one on the CPU. `free_gpu` gives
// the memory of this process back, since the server takes what is free.
std::vector<Row> ServerRows(Servers* servers, int gpu,
                            const std::function<void()>& free_gpu) {
  std::vector<Row> rows;
  for (const int64_t bytes : {kMiB, 16 * kMiB, 64 * kMiB}) {
    for (const Verb verb : {Verb::kPush, Verb::kPull}) {
      const Workload workload = {.verb = verb, .bytes_per_key = bytes};
      const auto load = [=](const std::string& server) {
        free_gpu();
        return TensorkvLoad(servers, server, workload);
      };
      rows.push_back(
          {.name =
               absl::StrCat("server/", NameOf(verb), "/", SizeText(workload)),
           .make_load =
               [=] {
                 return load(absl::StrCat("tensorkv --device=cuda:", gpu));
               },
           .references = {{"cpu", [=] { return load("tensorkv"); }, 1}}});
    }
  }
  return rows;
}

absl::Status MeasureAll(const Flags& flags) {
  ASSIGN_OR_RETURN(
      OpenedCudaBackend opened,
      OpenCudaBackend(flags.gpu, {.max_pinned_bytes = uint64_t{4} << 30}));
  ASSIGN_OR_RETURN(const CudaRuntime runtime, OpenCudaRuntime(flags.gpu));
  benchmark::AddCustomContext("GPU", runtime.device_name);
  const Sizes sizes = SizesFor(opened.memory_bytes, flags.run.is_quick);
  Backend* const backend = opened.backend.get();
  std::vector<Row> rows = runtime.rows;
  Append(UpdateRows(backend, runtime.copy, sizes), &rows);
  Append(PushRows(backend, sizes), &rows);
  Append(ContributionRows(backend, sizes), &rows);
  Append(StagingRows(backend, runtime.copy, sizes), &rows);
  Servers servers({.tensorkv_server = flags.run.tensorkv_server});
  Append(ServerRows(&servers, flags.gpu, [&] { opened = OpenedCudaBackend(); }),
         &rows);
  RunRows(rows, flags.run);
  return absl::OkStatus();
}

// Measures each beside what servers have, with half of the memory, one after
// the other.
absl::Status MeasureVariants(const Flags& flags) {
  uint64_t quota_bytes = 0;
  {
    ASSIGN_OR_RETURN(const OpenedCudaBackend opened,
                     OpenCudaBackend(flags.gpu));
    quota_bytes = opened.memory_bytes / 2;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> usual,
                   OpenVariant(flags.gpu, "", quota_bytes));
  const Sizes sizes = SizesFor(quota_bytes, flags.run.is_quick);
  const bool has_all = flags.variants == std::vector<std::string>{"all"};
  std::string open_name;
  std::unique_ptr<Backend> open_variant;
  std::vector<Row> rows;
  for (const std::string& name : has_all ? VariantNames() : flags.variants) {
    const auto get = [&, name]() -> absl::StatusOr<Backend*> {
      if (open_name != name) {
        open_variant.reset();
        ASSIGN_OR_RETURN(open_variant,
                         OpenVariant(flags.gpu, name, quota_bytes));
        open_name = name;
      }
      return open_variant.get();
    };
    Append(VariantRows(name, get, usual.get(), sizes), &rows);
  }
  RunRows(rows, flags.run);
  return absl::OkStatus();
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
  const absl::Status status =
      flags.variants.empty() ? MeasureAll(flags) : MeasureVariants(flags);
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
