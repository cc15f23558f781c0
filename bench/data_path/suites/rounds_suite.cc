#include "bench/data_path/suites/rounds_suite.h"

#include <cstring>
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
#include "bench/harness/clocks.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/update_rule.h"

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

// The update of one key with several contributions, by the CPU backend.
class SumOnCpu {
 public:
  static constexpr int kNumContributions = 4;

  static absl::StatusOr<std::unique_ptr<Load>> MakeLoad(int num_threads,
                                                        int64_t bytes) {
    const auto sum = std::make_shared<SumOnCpu>(num_threads);
    for (int i = 0; i < kNumContributions; ++i) {
      ASSIGN_OR_RETURN(Tensor tensor, MakeValues(bytes));
      sum->contributions_.push_back(std::move(tensor));
      sum->views_.push_back(sum->contributions_.back().view());
    }
    ASSIGN_OR_RETURN(sum->value_, MakeRoom(bytes));
    return std::make_unique<FunctionLoad>(
        LoadShape{.bytes_per_call = (kNumContributions + 1) * bytes},
        [sum](int) { return sum->Apply(); });
  }

  explicit SumOnCpu(int num_threads) : backend_(num_threads) {}

 private:
  absl::Status Apply() {
    return backend_.Apply({{.rule = &rule_,
                            .stored = value_.view(),
                            .contributions = views_,
                            .value = value_.mutable_view()}});
  }

  const UpdateRule rule_;  // assign
  CpuBackend backend_;
  std::vector<Tensor> contributions_;
  std::vector<TensorView> views_;
  Tensor value_;
};

// A memcpy shared by several threads.
absl::StatusOr<std::unique_ptr<Load>> MakeParallelCopyLoad(int num_threads,
                                                           int64_t bytes) {
  constexpr int64_t kChunk = 128 << 10;
  ASSIGN_OR_RETURN(Tensor from, MakeValues(bytes));
  ASSIGN_OR_RETURN(Tensor to, MakeRoom(bytes));
  return std::make_unique<FunctionLoad>(
      LoadShape{.bytes_per_call = 2 * bytes},
      [threads = std::make_shared<ThreadPool>(num_threads), bytes,
       from = std::move(from), to = std::move(to)](int) mutable {
        char* const target = to.mutable_data();
        threads->ParallelFor(bytes / kChunk, [&](size_t i) {
          std::memcpy(target + i * kChunk, from.data() + i * kChunk, kChunk);
        });
        return absl::OkStatus();
      });
}

}  // namespace

Section MeasureRounds(const PeerSet& peers, RowRunner* runner) {
  Section section = {
      .title = "Rounds of several workers, TCP",
      .goals = {
          {.name = "round/4x64MiB", .bound = 0.5, .reference = "unrelated"}}};
  for (const RoundShape& shape : RoundShapes(runner->plan())) {
    const std::string name = absl::StrCat("round/", SizeText(shape));
    if (!runner->MayBegin(name, &section)) continue;
    std::vector<Entrant> references;
    references.push_back({"unrelated", MakeUnrelatedLoad(peers, shape)});
    runner->Measure({.name = name, .bytes = shape.num_workers * shape.bytes},
                    {"round", MakeRoundLoad(peers, shape)},
                    std::move(references), &section);
  }
  return section;
}

Section MeasureRuleRounds(const PeerSet& peers, RowRunner* runner) {
  Section section = {.title = "Rounds with a rule, TCP"};
  for (const int64_t bytes : {kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
    if (runner->plan().is_quick && bytes != kMiB && bytes != 16 * kMiB) {
      continue;
    }
    RoundShape shape = {.num_workers = 4, .bytes = bytes};
    const std::string name = absl::StrCat("round/", SizeText(shape), "/sgd");
    if (!runner->MayBegin(name, &section)) continue;
    std::vector<Entrant> references;
    references.push_back({"assign", MakeRoundLoad(peers, shape)});
    shape.rule = "sgd";
    runner->Measure({.name = name, .bytes = shape.num_workers * bytes},
                    {"sgd", MakeRoundLoad(peers, shape)}, std::move(references),
                    &section);
  }
  return section;
}

Section MeasureSum(const CpuList& cpus, RowRunner* runner) {
  constexpr int64_t kBytes = 64 * kMiB;
  const std::string name = "sum/4x64MiB";
  Section section = {
      .title = "The sum alone, in process",
      .goals = {{.name = name, .bound = 0.7, .reference = "memcpy"}}};
  if (!runner->MayBegin(name, &section)) return section;
  const ScopedAffinity everywhere(cpus);
  const int num_threads = static_cast<int>(cpus.size());
  std::vector<Entrant> references;
  references.push_back({"memcpy", MakeParallelCopyLoad(num_threads, kBytes)});
  runner->Measure({.name = name, .bytes = SumOnCpu::kNumContributions * kBytes},
                  {"sum", SumOnCpu::MakeLoad(num_threads, kBytes)},
                  std::move(references), &section);
  return section;
}

}  // namespace tensorkv::bench
