#include "bench/data_path/suites/calls_suite.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tensorkv::bench {
namespace {

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGiB = 1 << 30;
constexpr int64_t kAllSizes[] = {256,       4 * kKiB,  64 * kKiB, kMiB,
                                 16 * kMiB, 64 * kMiB, kGiB};
constexpr Verb kAllVerbs[] = {Verb::kPush, Verb::kPull, Verb::kPushPull};
constexpr Verb kDirections[] = {Verb::kPush, Verb::kPull};

// Takes seconds per call: a quick run has it last, and not with all.
constexpr int64_t kLargestBytes = kGiB;

// How many times the bytes of all calls under way must fit into memory: each
// peer keeps their values, some at both ends, and the naive one has copies
// beside.
constexpr int64_t kCopiesInMemory = 16;
constexpr int kManyInFlight = 16;

// The size of the row whose latency is compared with an echo.
constexpr int64_t kEchoBytes = 4 * kKiB;

int64_t MaxBytesInFlight() {
  const int64_t memory =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return memory / kCopiesInMemory;
}

std::vector<Workload> FullTcpWorkloads() {
  std::vector<Workload> workloads;
  for (const int64_t bytes : kAllSizes) {
    for (const Verb verb : kAllVerbs) {
      for (const int in_flight : {1, kManyInFlight}) {
        workloads.push_back(
            {.verb = verb, .bytes_per_key = bytes, .in_flight = in_flight});
      }
    }
  }
  return workloads;
}

// The rows that the goals are about, and some more.
std::vector<Workload> QuickTcpWorkloads() {
  std::vector<Workload> workloads = {
      {.verb = Verb::kPushPull, .bytes_per_key = 4 * kKiB},
      {.verb = Verb::kPush,
       .bytes_per_key = 4 * kKiB,
       .in_flight = kManyInFlight},
      {.verb = Verb::kPull,
       .bytes_per_key = 4 * kKiB,
       .in_flight = kManyInFlight}};
  for (const int64_t bytes : kAllSizes) {
    if (bytes == kLargestBytes) continue;
    for (const Verb verb : kDirections) {
      workloads.push_back({.verb = verb, .bytes_per_key = bytes});
    }
  }
  return workloads;
}

std::vector<Workload> UnixWorkloads(const Plan& plan) {
  std::vector<Workload> workloads;
  for (const int64_t bytes : {4 * kKiB, kMiB, 64 * kMiB}) {
    if (plan.is_quick && bytes > kMiB) continue;
    for (const Verb verb : kDirections) {
      workloads.push_back({.verb = verb, .bytes_per_key = bytes});
    }
  }
  return workloads;
}

// Whether a reference says anything about a workload.
bool IsUseful(const Peer& reference, const Workload& workload) {
  if (reference.name() != "echo") return true;
  return workload.bytes_per_lane() == kEchoBytes && workload.in_flight == 1;
}

// A load of `reference`, or why there is none.
absl::StatusOr<std::unique_ptr<Load>> MakeReferenceLoad(
    const Workload& workload, const Plan& plan, Peer* reference) {
  const bool is_slow = reference->name() == "naive" &&
                       workload.bytes_per_lane() >= kLargestBytes;
  if (is_slow && plan.is_quick) {
    return absl::OutOfRangeError("takes too long for a quick run");
  }
  return reference->MakeLoad(workload);
}

void MeasurePeers(const Workload& workload, const PeerSet& peers,
                  const std::string& name, RowRunner* runner,
                  Section* section) {
  Row row = {.name = name,
             .bytes = workload.bytes_per_lane(),
             .in_flight = workload.in_flight,
             .connections = workload.connections};
  Entrant ours = {peers.ours()->name(), peers.ours()->MakeLoad(workload)};
  std::vector<Entrant> references;
  for (const std::unique_ptr<Peer>& peer : peers.references()) {
    if (!ours.load.ok() || !IsUseful(*peer, workload)) continue;
    references.push_back(
        {peer->name(),
         MakeReferenceLoad(workload, runner->plan(), peer.get())});
  }
  runner->Measure(std::move(row), std::move(ours), std::move(references),
                  section);
}

// Adds the row `name` of one workload of ours beside another.
void MeasureBoth(const std::string& name, Workload ours,
                 const Workload& reference, const PeerSet& peers,
                 ConnectionCounter* counter, RowRunner* runner,
                 Section* section) {
  if (!runner->MayBegin(name, section)) return;
  Row row = {.name = name,
             .bytes = ours.bytes_per_lane(),
             .connections = counter->Count(ours)};
  std::vector<Entrant> references;
  references.push_back(
      {SizeText(reference), peers.ours()->MakeLoad(reference)});
  runner->Measure(std::move(row),
                  {SizeText(ours), peers.ours()->MakeLoad(ours)},
                  std::move(references), section);
}

}  // namespace

std::vector<Workload> TensorWorkloads(const Plan& plan, Transport transport) {
  if (transport == Transport::kUnix) return UnixWorkloads(plan);
  return plan.is_quick ? QuickTcpWorkloads() : FullTcpWorkloads();
}

std::vector<Workload> LastWorkloads(const Plan& plan) {
  std::vector<Workload> workloads;
  if (!plan.is_quick) return workloads;
  for (const Verb verb : kDirections) {
    workloads.push_back({.verb = verb, .bytes_per_key = kLargestBytes});
  }
  return workloads;
}

std::vector<Workload> BatchWorkloads(const Plan& plan) {
  std::vector<Workload> workloads;
  for (const Verb verb : kAllVerbs) {
    for (const auto& [num_keys, bytes] : {std::pair<int64_t, int64_t>(100, 256),
                                          {100, 4 * kKiB},
                                          {10'000, 256},
                                          {10'000, 4 * kKiB}}) {
      // 10,000 keys of 256 bytes have a goal.
      if (plan.is_quick && (num_keys == 100) != (bytes == 4 * kKiB)) continue;
      workloads.push_back(
          {.verb = verb, .bytes_per_key = bytes, .num_keys = num_keys});
    }
  }
  return workloads;
}

std::string RowName(Transport transport, const Workload& workload) {
  return absl::StrCat(NameOf(transport), "/", NameOf(workload.verb), "/",
                      SizeText(workload));
}

Section MeasureCalls(std::string title, Unit unit,
                     const std::vector<Workload>& workloads,
                     const PeerSet& peers, ConnectionCounter* counter,
                     RowRunner* runner) {
  Section section = {
      .title = std::move(title), .unit = unit, .left_out = peers.missing()};
  for (Workload workload : workloads) {
    const std::string name = RowName(peers.transport(), workload);
    if (!runner->MayBegin(name, &section)) continue;
    if (workload.bytes_per_lane() * workload.in_flight > MaxBytesInFlight()) {
      section.left_out.push_back(absl::StrCat(
          name, ", ", workload.in_flight, " in flight: needs memory for ",
          kCopiesInMemory, " times the bytes"));
      continue;
    }
    workload.connections = counter->Count(workload);
    MeasurePeers(workload, peers, name, runner, &section);
  }
  return section;
}

Section MeasureOursBesideOurs(const PeerSet& peers, ConnectionCounter* counter,
                              RowRunner* runner) {
  Section section = {.title = "Ours beside ours, TCP"};
  for (const Verb verb : kDirections) {
    MeasureBoth(absl::StrCat("size/", NameOf(verb), "/64MiB"),
                {.verb = verb, .bytes_per_key = 64 * kMiB},
                {.verb = verb, .bytes_per_key = kMiB}, peers, counter, runner,
                &section);
  }
  for (const Verb verb : kDirections) {
    MeasureBoth(absl::StrCat("batch/", NameOf(verb), "/1000x4KiB"),
                {.verb = verb, .bytes_per_key = 4 * kKiB, .num_keys = 1000},
                {.verb = verb, .bytes_per_key = 4 * kMiB}, peers, counter,
                runner, &section);
  }
  return section;
}

}  // namespace tensorkv::bench
