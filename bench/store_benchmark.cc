// What rows of a table cost in the store: pushes of 1,000 rows of 256 bytes to
// a MemoryTensorStore in this process, without a network. The table has as
// many rows as the row's name says.
//
//   bazel build //bench:store_benchmark
//   bazel-bin/bench/store_benchmark --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "base/cores.h"
#include "bench/harness/clocks.h"
#include "bench/harness/statistics.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/store/memory_tensor_store.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

constexpr int64_t kElements = 64;
constexpr int64_t kRowsPerCall = 1000;

void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

class Table {
 public:
  Table(int64_t num_rows, const std::string& rule)
      : backend_(NumCores()),
        store_({.budget_bytes = uint64_t{1} << 40}, &backend_, &alarms_),
        id_(0, num_rows - 1) {
    SetRuleRequest set_rule;
    set_rule.rule = RuleSpec{.name = rule};
    Check(store_.SetRule(set_rule));
    InitRequest request;
    request.entries = {
        {"table", *Tensor::WithoutData(DType::kF32, {num_rows, kElements})}};
    // Memory that the key keeps: there is one table, not two.
    Tensor* const table = &request.entries[0].tensor;
    Check(store_.Allocate("", absl::MakeConstSpan(&table, 1)));
    for (float& element : table->mutable_elements<float>()) element = 1;
    const Answer<absl::Status> answer;
    store_.Init(std::move(request), {},
                [answer](absl::StatusOr<InitReply> reply) {
                  answer.Set(reply.status());
                });
    Check(answer.Wait());
    Push(NextPush());  // fills the states
  }

  PushRequest NextPush() {
    PushRequest request;
    request.entries = {
        {.key = "table",
         .tensor = *Tensor::Filled(DType::kF32, {kRowsPerCall, kElements}, 1),
         .rows = NextIds()}};
    return request;
  }

  void Push(PushRequest request) {
    const Answer<absl::Status> answer;
    store_.Push(std::move(request), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(reply.status());
                });
    Check(answer.Wait());
  }

 private:
  RefPtr<const RowIds> NextIds() {
    Tensor ids = *Tensor::Allocate(DType::kI64, {kRowsPerCall});
    for (int64_t& id : ids.mutable_elements<int64_t>()) id = id_(random_);
    return *RowIds::Create(std::move(ids));
  }

  CpuBackend backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_;
  std::mt19937 random_;
  std::uniform_int_distribution<int64_t> id_;
};

// Shows what a row takes: in the median, and at best, which is what neighbours
// on the machine disturb least.
void PushRows(benchmark::State& state, const std::string& rule) {
  Table table(state.range(0), rule);
  std::vector<double> seconds;
  for (auto _ : state) {
    PushRequest request = table.NextPush();
    const absl::Duration start = SteadyTime();
    table.Push(std::move(request));
    seconds.push_back(absl::ToDoubleSeconds(SteadyTime() - start));
    state.SetIterationTime(seconds.back());
  }
  constexpr double kNanosecondsPerRow = 1e9 / kRowsPerCall;
  state.counters["ns/row"] = Median(seconds) * kNanosecondsPerRow;
  state.counters["best_ns/row"] =
      *std::min_element(seconds.begin(), seconds.end()) * kNanosecondsPerRow;
}

void TableSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(10)
      ->Range(100'000, 10'000'000)
      ->Unit(benchmark::kMicrosecond)
      ->UseManualTime();
}

BENCHMARK_CAPTURE(PushRows, assign, "assign")->Apply(TableSizes);
BENCHMARK_CAPTURE(PushRows, adagrad, "adagrad")->Apply(TableSizes);

}  // namespace
}  // namespace tensorkv::bench

BENCHMARK_MAIN();
