#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/data_path/peers/workload.h"
#include "bench/data_path/suites/suites.h"

namespace tensorkv::bench {
namespace {

constexpr int64_t kAllSizes[] = {256,       4 * kKiB,  64 * kKiB, kMiB,
                                 16 * kMiB, 64 * kMiB, kGiB};
constexpr Verb kAllVerbs[] = {Verb::kPush, Verb::kPull, Verb::kPushPull};
constexpr Verb kDirections[] = {Verb::kPush, Verb::kPull};

// How many times the bytes of all calls under way must fit into memory: each
// peer keeps their values, some at both ends, and the naive one has copies
// beside.
constexpr int64_t kCopiesInMemory = 16;
constexpr int kManyInFlight = 16;

// The size of the row whose latency is compared with an echo.
constexpr int64_t kEchoBytes = 4 * kKiB;
// Copying less takes no longer than looking at the clock.
constexpr int64_t kLeastCopiedBytes = 64 * kKiB;

int64_t MaxBytesInFlight() {
  const int64_t memory =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return memory / kCopiesInMemory;
}

// A quick run has the rows that the goals are about, and some more.
std::vector<Workload> TcpWorkloads(const Plan& plan) {
  std::vector<Workload> workloads;
  for (const int64_t bytes : kAllSizes) {
    for (const Verb verb : kAllVerbs) {
      for (const int in_flight : {1, kManyInFlight}) {
        const bool is_rare = verb == Verb::kPushPull || in_flight > 1;
        if (plan.is_quick &&
            (bytes == kGiB || (is_rare && bytes != kEchoBytes)))
          continue;
        workloads.push_back(
            {.verb = verb, .bytes_per_key = bytes, .in_flight = in_flight});
      }
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

// Whether a reference says anything about a workload.
bool IsUseful(const Peer& reference, const Workload& workload) {
  const int64_t bytes = workload.bytes_per_lane();
  if (reference.name == "memcpy") return bytes >= kLeastCopiedBytes;
  if (reference.name != "echo") return true;
  return bytes == kEchoBytes && workload.in_flight == 1;
}

// A load of `reference`, or why there is none.
absl::StatusOr<std::unique_ptr<Load>> MakeReferenceLoad(
    const Workload& workload, const Plan& plan, const Peer& reference) {
  const bool is_slow =
      reference.name == "naive" && workload.bytes_per_lane() >= kGiB;
  if (is_slow && plan.is_quick) {
    return absl::OutOfRangeError("takes too long for a quick run");
  }
  return reference.make_load(workload);
}

void MeasureWorkload(const Workload& workload, const PeerSet& peers,
                     RowRunner* runner, Section* section) {
  const std::string name = RowName(peers.transport(), workload);
  if (!runner->MayBegin(name, section)) return;
  if (workload.bytes_per_lane() * workload.in_flight > MaxBytesInFlight()) {
    section->left_out.push_back(absl::StrCat(
        name, ", ", workload.in_flight, " in flight: needs memory for ",
        kCopiesInMemory, " times the bytes"));
    return;
  }
  Row row = {.name = name,
             .bytes = workload.bytes_per_lane(),
             .in_flight = workload.in_flight};
  Entrant ours = {peers.ours().name, peers.ours().make_load(workload)};
  std::vector<Entrant> references;
  for (const Peer& peer : peers.references()) {
    if (!ours.load.ok() || !IsUseful(peer, workload)) continue;
    references.push_back(
        {peer.name, MakeReferenceLoad(workload, runner->plan(), peer)});
  }
  runner->Measure(std::move(row), std::move(ours), std::move(references),
                  section);
}

Section MeasureAll(std::string title, Unit unit,
                   const std::vector<Workload>& workloads, const PeerSet& peers,
                   RowRunner* runner) {
  Section section = {
      .title = std::move(title), .unit = unit, .left_out = peers.missing()};
  for (const Workload& workload : workloads) {
    MeasureWorkload(workload, peers, runner, &section);
  }
  return section;
}

// Adds the row `name` of one workload of ours beside another.
void MeasureBoth(const std::string& name, const Workload& ours,
                 const Workload& reference, double goal, const PeerSet& peers,
                 RowRunner* runner, Section* section) {
  section->goals.push_back(
      {.name = name, .bound = goal, .reference = SizeText(reference)});
  const auto contender = [&peers](const Workload& workload) -> Contender {
    return {SizeText(workload),
            [&peers, workload] { return peers.ours().make_load(workload); }};
  };
  runner->MeasureBeside(name, ours.bytes_per_lane(), contender(ours),
                        contender(reference), section);
}

void AddSpeedGoals(Verb verb, int64_t bytes, Section* section) {
  const std::string row =
      RowName(Transport::kTcp, {.verb = verb, .bytes_per_key = bytes});
  section->goals.push_back({.name = row, .bound = 0.65, .reference = "raw"});
  section->goals.push_back({.name = row, .bound = 3, .reference = "naive"});
  // Neither takes a value of 1 GiB; a call of 1 MiB is bound by gRPC.
  if (bytes == kMiB || bytes == kGiB) return;
  section->goals.push_back({.name = row, .bound = 1, .reference = "redis"});
  section->goals.push_back({.name = row, .bound = 1, .reference = "memcached"});
}

}  // namespace

Section MeasureTensors(const PeerSet& peers, RowRunner* runner) {
  if (peers.transport() == Transport::kUnix) {
    return MeasureAll("One tensor, Unix socket", Unit::kGigabytesPerSecond,
                      UnixWorkloads(runner->plan()), peers, runner);
  }
  Section section = MeasureAll("One tensor, TCP", Unit::kGigabytesPerSecond,
                               TcpWorkloads(runner->plan()), peers, runner);
  for (const int64_t bytes : {kMiB, 16 * kMiB, 64 * kMiB, kGiB}) {
    if (bytes == kGiB && runner->plan().is_quick) continue;
    for (const Verb verb : kDirections) AddSpeedGoals(verb, bytes, &section);
  }
  for (const Verb verb : kAllVerbs) {
    section.goals.push_back(
        {.name = RowName(Transport::kTcp,
                         {.verb = verb, .bytes_per_key = kEchoBytes}),
         .kind = Goal::Kind::kMedianTime,
         .bound = 1.3,
         .reference = "echo"});
  }
  return section;
}

Section MeasureLargeTensors(const PeerSet& peers, RowRunner* runner) {
  if (!runner->plan().is_quick) return {};
  std::vector<Workload> workloads;
  for (const Verb verb : kDirections) {
    workloads.push_back({.verb = verb, .bytes_per_key = kGiB});
  }
  Section section =
      MeasureAll("One large tensor, TCP", Unit::kGigabytesPerSecond, workloads,
                 peers, runner);
  for (const Verb verb : kDirections) AddSpeedGoals(verb, kGiB, &section);
  return section;
}

Section MeasureBatches(const PeerSet& peers, RowRunner* runner) {
  Section section = MeasureAll("Batches, TCP", Unit::kMillionKeysPerSecond,
                               BatchWorkloads(runner->plan()), peers, runner);
  const auto name = [](Verb verb) {
    return RowName(Transport::kTcp,
                   {.verb = verb, .bytes_per_key = 256, .num_keys = 10'000});
  };
  for (const Verb verb : kAllVerbs) {
    section.goals.push_back(
        {.name = name(verb), .bound = 1, .reference = "redis"});
  }
  section.goals.push_back({.name = name(Verb::kPushPull),
                           .kind = Goal::Kind::kMillionKeysPerSecond,
                           .bound = 1});
  return section;
}

Section MeasureOursBesideOurs(const PeerSet& peers, RowRunner* runner) {
  Section section = {.title = "Ours beside ours, TCP"};
  for (const Verb verb : kDirections) {
    MeasureBoth(absl::StrCat("size/", NameOf(verb), "/64MiB"),
                {.verb = verb, .bytes_per_key = 64 * kMiB},
                {.verb = verb, .bytes_per_key = kMiB}, /*goal=*/0.9, peers,
                runner, &section);
    MeasureBoth(absl::StrCat("batch/", NameOf(verb), "/1000x4KiB"),
                {.verb = verb, .bytes_per_key = 4 * kKiB, .num_keys = 1000},
                {.verb = verb, .bytes_per_key = 4 * kMiB}, /*goal=*/0.8, peers,
                runner, &section);
  }
  return section;
}

}  // namespace tensorkv::bench
