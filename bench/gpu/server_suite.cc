#include "bench/gpu/server_suite.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/data_path/peers/workload.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr double kGoal = 1;
constexpr char kCpu[] = "server on the CPU";

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

Section MeasureServers(const Peer& on_gpu, const Peer& on_cpu,
                       const Sizes& sizes, RowRunner* runner) {
  Section section = {.title = "A server, through gRPC"};
  for (const Workload& workload : Workloads(sizes)) {
    const std::string name =
        absl::StrCat("server/", NameOf(workload.verb), "/", SizeText(workload),
                     "@", workload.in_flight);
    if (!runner->Wants(name)) continue;
    section.goals.push_back({.name = name, .bound = kGoal, .reference = kCpu});
    std::vector<Entrant> references;
    references.push_back({kCpu, on_cpu.make_load(workload)});
    runner->Measure({.name = name,
                     .bytes = workload.bytes_per_key,
                     .in_flight = workload.in_flight},
                    {"server on the GPU", on_gpu.make_load(workload)},
                    std::move(references), &section);
  }
  return section;
}

}  // namespace tensorkv::bench::gpu
