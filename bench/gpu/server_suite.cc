#include "bench/gpu/server_suite.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu/comparer.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr double kGoal = 0.9;

std::vector<Workload> Workloads(const Sizes& sizes) {
  std::vector<Workload> workloads;
  for (const int64_t bytes : sizes.message_bytes) {
    for (const Verb verb : {Verb::kPush, Verb::kPull}) {
      for (const int in_flight : sizes.messages_in_flight) {
        workloads.push_back(
            {.verb = verb, .bytes_per_key = bytes, .in_flight = in_flight});
      }
    }
  }
  return workloads;
}

}  // namespace

ComparisonTable MeasureServers(Peer* on_gpu, Peer* on_cpu, const Sizes& sizes,
                               RowRunner* runner) {
  ComparisonTable table = {.title = "A server, through gRPC"};
  Comparer comparer(runner, &table);
  for (const Workload& workload : Workloads(sizes)) {
    const std::string name =
        absl::StrCat("server/", NameOf(workload.verb), "/", SizeText(workload),
                     "@", workload.in_flight);
    if (!comparer.Wants(name)) continue;
    std::vector<Rival> rivals;
    rivals.push_back(
        {{"server on the CPU", on_cpu->MakeLoad(workload)}, kGoal});
    comparer.AddSpeeds(name, workload.bytes_per_key,
                       {"server on the GPU", on_gpu->MakeLoad(workload)},
                       std::move(rivals));
  }
  return table;
}

}  // namespace tensorkv::bench::gpu
