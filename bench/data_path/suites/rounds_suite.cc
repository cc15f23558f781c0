#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/peers/tensorkv_peer.h"
#include "bench/data_path/peers/workload.h"
#include "bench/data_path/suites/push_group_load.h"
#include "bench/data_path/suites/suites.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

// How long a round may take that has all its contributions: far more than it
// needs.
constexpr absl::Duration kCloseTimeout = absl::Minutes(1);
// Between looks at it: the server needs its core for the round.
constexpr absl::Duration kPollInterval = absl::Microseconds(100);

struct RoundShape {
  uint32_t num_workers = 0;
  int64_t bytes = 0;  // of each contribution
  std::string rule = "assign";
};

std::string SizeText(const RoundShape& shape) {
  return absl::StrCat(shape.num_workers, "x", ByteText(shape.bytes));
}

std::vector<RoundShape> RoundShapes(const Plan& plan) {
  std::vector<RoundShape> shapes;
  for (const int64_t bytes : {kMiB, 64 * kMiB}) {
    for (const uint32_t num_workers : {2, 4, 8}) {
      // Only one of the large ones has a goal.
      if (plan.is_quick && bytes > kMiB && num_workers != 4) continue;
      shapes.push_back({.num_workers = num_workers, .bytes = bytes});
    }
  }
  return shapes;
}

// Waits until a key has a version, without reading its value.
absl::Status AwaitVersion(Client* client, const std::string& key,
                          Version version) {
  const absl::Duration deadline = SteadyTime() + kCloseTimeout;
  while (SteadyTime() < deadline) {
    ASSIGN_OR_RETURN(const std::vector<KeyStatus> keys, client->Stat({key}));
    if (keys.front().version >= version) return absl::OkStatus();
    absl::SleepFor(kPollInterval);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("expected version ", version, " of ", key));
}

constexpr char kKey[] = "w";

// In a namespace that goes with the load.
absl::StatusOr<std::unique_ptr<Load>> MakeRoundLoad(const PeerSet& peers,
                                                    const RoundShape& shape) {
  const std::string name =
      absl::StrCat("round-", shape.rule, "-", SizeText(shape));
  ASSIGN_OR_RETURN(const std::shared_ptr<Client> reader,
                   peers.Connect({.name_space = name}));
  RETURN_IF_ERROR(
      reader->CreateNamespace(name, {.mode = Mode::kSync,
                                     .num_workers = shape.num_workers,
                                     .rule = {.name = shape.rule}}));
  PushGroup group;
  group.server = peers.our_server().pid();
  ASSIGN_OR_RETURN(group.value, MakeValues(shape.bytes));
  RETURN_IF_ERROR(reader->Init(kKey, group.value));
  for (uint32_t rank = 0; rank < shape.num_workers; ++rank) {
    group.keys.push_back(kKey);
    group.workers.emplace_back();
    ASSIGN_OR_RETURN(group.workers.back(),
                     peers.Connect({.name_space = name, .rank = rank}));
  }
  group.await_effect = [reader](int64_t round) {
    return AwaitVersion(reader.get(), kKey, /*version=*/1 + round);
  };
  group.clean_up = [reader, name] {
    reader->DeleteNamespace(name).IgnoreError();  // Nobody meets it again.
  };
  return std::make_unique<PushGroupLoad>(std::move(group));
}

// To a key per worker, in the default namespace.
absl::StatusOr<std::unique_ptr<Load>> MakeUnrelatedLoad(
    const PeerSet& peers, const RoundShape& shape) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Client> owner, peers.Connect({}));
  PushGroup group;
  group.server = peers.our_server().pid();
  ASSIGN_OR_RETURN(group.value, MakeValues(shape.bytes));
  for (uint32_t i = 0; i < shape.num_workers; ++i) {
    group.keys.push_back(absl::StrCat("unrelated.", i));
    RETURN_IF_ERROR(
        owner->Init(group.keys.back(), group.value, OnExisting::kReplace));
    group.workers.emplace_back();
    ASSIGN_OR_RETURN(group.workers.back(), peers.Connect({}));
  }
  group.clean_up = [owner, keys = group.keys] {
    // The next load replaces what is left.
    owner->Delete(keys, /*allow_missing=*/true).status().IgnoreError();
  };
  return std::make_unique<PushGroupLoad>(std::move(group));
}

}  // namespace

Section MeasureRounds(const PeerSet& peers, RowRunner* runner) {
  Section section = {
      .title = "Rounds of several workers, TCP",
      .goals = {
          {.name = "round/4x64MiB", .bound = 0.5, .reference = "unrelated"}}};
  for (const RoundShape& shape : RoundShapes(runner->plan())) {
    runner->MeasureBeside(
        absl::StrCat("round/", SizeText(shape)),
        shape.num_workers * shape.bytes,
        {"round", [&] { return MakeRoundLoad(peers, shape); }},
        {"unrelated", [&] { return MakeUnrelatedLoad(peers, shape); }},
        &section);
  }
  return section;
}

Section MeasureRuleRounds(const PeerSet& peers, RowRunner* runner) {
  Section section = {.title = "Rounds with a rule, TCP"};
  for (const int64_t bytes : {kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
    if (runner->plan().is_quick && bytes != kMiB && bytes != 16 * kMiB) {
      continue;
    }
    const RoundShape assign = {.num_workers = 4, .bytes = bytes};
    const RoundShape sgd = {.num_workers = 4, .bytes = bytes, .rule = "sgd"};
    runner->MeasureBeside(
        absl::StrCat("round/", SizeText(sgd), "/sgd"), 4 * bytes,
        {"sgd", [&] { return MakeRoundLoad(peers, sgd); }},
        {"assign", [&] { return MakeRoundLoad(peers, assign); }}, &section);
  }
  return section;
}

}  // namespace tensorkv::bench
