#include "bench/data_path/suites/rounds_suite.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/lanes.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/suites/push_group_load.h"
#include "bench/harness/clocks.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/update_rule.h"

namespace tensorkv::bench {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Of a round that has all its contributions: far more than it takes.
constexpr absl::Duration kCloseTimeout = absl::Minutes(1);
// Between looks at it: the server needs its core for the round.
constexpr absl::Duration kPollInterval = absl::Microseconds(100);

struct RoundShape {
  int num_workers = 0;
  int64_t bytes = 0;  // of each contribution
};

std::string SizeText(const RoundShape& shape) {
  return absl::StrCat(shape.num_workers, "x", ByteText(shape.bytes));
}

std::vector<RoundShape> RoundShapes(const Plan& plan) {
  std::vector<RoundShape> shapes;
  for (const int64_t bytes : {kMiB, 64 * kMiB}) {
    for (const int num_workers : {2, 4, 8}) {
      // Of the large ones, the one with a goal.
      if (plan.is_quick && bytes > kMiB && num_workers != 4) continue;
      shapes.push_back({.num_workers = num_workers, .bytes = bytes});
    }
  }
  return shapes;
}

absl::StatusOr<std::unique_ptr<Client>> Connect(
    const PeerSet& peers, const std::string& name_space,
    std::optional<uint32_t> rank = std::nullopt) {
  return Client::Connect({.target = peers.our_server().address,
                          .name_space = name_space,
                          .rank = rank,
                          .timeout = kCallTimeout});
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
  const std::string name = absl::StrCat("round-", SizeText(shape));
  ASSIGN_OR_RETURN(const std::shared_ptr<Client> reader, Connect(peers, name));
  RETURN_IF_ERROR(reader->CreateNamespace(
      name, {.mode = Mode::kSync,
             .num_workers = static_cast<uint32_t>(shape.num_workers)}));
  PushGroup group;
  group.server = peers.our_server().pid();
  ASSIGN_OR_RETURN(group.value, MakeValues(shape.bytes));
  RETURN_IF_ERROR(reader->Init(kKey, group.value));
  for (int rank = 0; rank < shape.num_workers; ++rank) {
    group.keys.push_back(kKey);
    group.workers.emplace_back();
    ASSIGN_OR_RETURN(group.workers.back(), Connect(peers, name, rank));
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
  ASSIGN_OR_RETURN(const std::shared_ptr<Client> owner, Connect(peers, ""));
  PushGroup group;
  group.server = peers.our_server().pid();
  ASSIGN_OR_RETURN(group.value, MakeValues(shape.bytes));
  for (int i = 0; i < shape.num_workers; ++i) {
    group.keys.push_back(absl::StrCat("unrelated.", i));
    RETURN_IF_ERROR(
        owner->Init(group.keys.back(), group.value, OnExisting::kReplace));
    group.workers.emplace_back();
    ASSIGN_OR_RETURN(group.workers.back(), Connect(peers, ""));
  }
  group.clean_up = [owner, keys = group.keys] {
    // The next load replaces what is left.
    owner->Delete(keys, /*allow_missing=*/true).status().IgnoreError();
  };
  return std::make_unique<PushGroupLoad>(std::move(group));
}

// Four contributions and the value that is their sum.
class SumLoad final : public Load {
 public:
  static constexpr int kNumContributions = 4;

  static absl::StatusOr<std::unique_ptr<Load>> Create(int num_threads,
                                                      int64_t bytes) {
    std::vector<Tensor> contributions;
    for (int i = 0; i < kNumContributions; ++i) {
      ASSIGN_OR_RETURN(Tensor tensor, MakeValues(bytes));
      contributions.push_back(std::move(tensor));
    }
    ASSIGN_OR_RETURN(Tensor value, MakeRoom(bytes));
    return std::unique_ptr<Load>(
        new SumLoad(num_threads, std::move(contributions), std::move(value)));
  }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    return FunctionLoad(shape(), [this] { return Sum(); })
        .Run(num_calls, latencies);
  }

 private:
  SumLoad(int num_threads, std::vector<Tensor> contributions, Tensor value)
      : Load({.bytes_per_call = (kNumContributions + 1) * value.size_bytes()}),
        backend_(num_threads),
        contributions_(std::move(contributions)),
        value_(std::move(value)) {
    for (const Tensor& contribution : contributions_) {
      views_.push_back(contribution.view());
    }
  }

  absl::Status Sum() {
    return backend_.Apply({{.rule = &rule_,
                            .stored = value_.view(),
                            .contributions = views_,
                            .value = value_.mutable_view()}});
  }

  const UpdateRule rule_;  // assign
  CpuBackend backend_;
  const std::vector<Tensor> contributions_;
  std::vector<TensorView> views_;
  Tensor value_;
};

// A memcpy shared by several threads.
class ParallelCopyLoad final : public Load {
 public:
  static absl::StatusOr<std::unique_ptr<Load>> Create(int num_threads,
                                                      int64_t bytes) {
    ASSIGN_OR_RETURN(Tensor from, MakeValues(bytes));
    ASSIGN_OR_RETURN(Tensor to, MakeRoom(bytes));
    return std::unique_ptr<Load>(
        new ParallelCopyLoad(num_threads, std::move(from), std::move(to)));
  }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    return FunctionLoad(shape(), [this] { return Copy(); })
        .Run(num_calls, latencies);
  }

 private:
  ParallelCopyLoad(int num_threads, Tensor from, Tensor to)
      : Load({.bytes_per_call = 2 * from.size_bytes()}),
        num_threads_(num_threads),
        from_(std::move(from)),
        to_(std::move(to)) {}

  absl::Status Copy() {
    constexpr int64_t kChunk = 128 << 10;
    std::atomic<int64_t> next_chunk = 0;
    std::vector<absl::Duration> ignored;
    return RunOnLanes(
        num_threads_, from_.size_bytes() / kChunk,
        [&](int) {
          const int64_t begin = kChunk * next_chunk++;
          std::memcpy(to_.mutable_data() + begin, from_.data() + begin, kChunk);
          return absl::OkStatus();
        },
        &ignored);
  }

  const int num_threads_;
  const Tensor from_;
  Tensor to_;
};

}  // namespace

Section MeasureRounds(const PeerSet& peers, ConnectionCounter* counter,
                      RowRunner* runner) {
  Section section = {.title = "Rounds of several workers, TCP"};
  for (const RoundShape& shape : RoundShapes(runner->plan())) {
    const std::string name = absl::StrCat("round/", SizeText(shape));
    if (!runner->MayBegin(name, &section)) continue;
    const Workload push = {.verb = Verb::kPush, .bytes_per_key = shape.bytes};
    Row row = {.name = name,
               .bytes = shape.num_workers * shape.bytes,
               .connections = shape.num_workers * counter->Count(push)};
    std::vector<Entrant> references;
    references.push_back({"unrelated", MakeUnrelatedLoad(peers, shape)});
    runner->Measure(std::move(row), {"round", MakeRoundLoad(peers, shape)},
                    std::move(references), &section);
  }
  return section;
}

Section MeasureSum(const CpuList& cpus, RowRunner* runner) {
  Section section = {.title = "The sum alone, in process"};
  constexpr int64_t kBytes = 64 * kMiB;
  const std::string name = "sum/4x64MiB";
  if (!runner->MayBegin(name, &section)) return section;
  const ScopedAffinity everywhere(cpus);
  const int num_threads = static_cast<int>(cpus.size());
  Row row = {.name = name,
             .bytes = SumLoad::kNumContributions * kBytes,
             .connections = 0};
  std::vector<Entrant> references;
  references.push_back(
      {"memcpy", ParallelCopyLoad::Create(num_threads, kBytes)});
  runner->Measure(std::move(row), {"sum", SumLoad::Create(num_threads, kBytes)},
                  std::move(references), &section);
  return section;
}

}  // namespace tensorkv::bench
