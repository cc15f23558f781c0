// How fast the CPU backend updates large tensors: bytes per second that the
// update must move, beside a parallel memcpy that is timed in turns with it.
//
//   bazel build //bench:kernels_benchmark
//   bazel-bin/bench/kernels_benchmark --benchmark_repetitions=9

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/cores.h"
#include "bench/key_update.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

// 64 MiB of f32: far more than the caches hold.
constexpr int64_t kLargeElements = 16 * 1024 * 1024;
// Of these, for rules that keep a state per row or column.
constexpr int64_t kLargeRows = 4096;

Tensor MakeTensor(DType dtype, int64_t num_elements) {
  return Tensor::Filled(dtype, {num_elements}, 0.5).value();
}

template <typename Body>
double Seconds(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

// Copies on as many threads as the backend has.
class ParallelCopy {
 public:
  explicit ParallelCopy(int num_threads)
      : threads_(num_threads),
        from_(MakeTensor(DType::kF32, kLargeElements)),
        to_(MakeTensor(DType::kF32, kLargeElements)) {}

  void Run() {
    constexpr size_t kChunk = 128 * 1024;
    threads_.ParallelFor(from_.size_bytes() / kChunk, [&](size_t i) {
      std::memcpy(to_.mutable_data() + i * kChunk, from_.data() + i * kChunk,
                  kChunk);
    });
  }
  double bytes_moved() const { return 2.0 * from_.size_bytes(); }

 private:
  ThreadPool threads_;
  Tensor from_;
  Tensor to_;
};

// What a rule reads for its sums before it updates the first element: numbers
// for each element, of the value, the contribution and the states. Of rows that
// are updated while they are in the cache nothing is read twice.
int NumbersReadForSums(absl::string_view rule) {
  if (rule == "lars") return 2;  // value and gradient
  if (rule == "lamb") return 4;  // these and two states
  if (rule == "lans") return 5;  // the gradient, then as lamb
  // The gradient for rows and columns, then it and the value.
  if (rule == "adafactor") return 3;
  return 0;
}

void UpdateLarge(benchmark::State& state, const RuleSpec& spec, DType dtype,
                 int num_contributions) {
  const UpdateRule rule = UpdateRule::Create(spec).value();
  CpuBackend backend(NumCores());
  const KeyUpdate update =
      KeyUpdate::Create(backend, &rule,
                        {.dtype = dtype,
                         .num_elements = kLargeElements,
                         .num_contributions = num_contributions,
                         .num_rows = kLargeRows})
          .value();
  const double bytes_moved = BytesMoved(update.view());
  const double bytes_read_for_sums = static_cast<double>(
      NumbersReadForSums(spec.name) * kLargeElements * sizeof(float));
  ParallelCopy copy(NumCores());
  double update_seconds = 0;
  double copy_seconds = 0;
  for (auto _ : state) {
    copy_seconds += Seconds([&] { copy.Run(); });
    const double seconds = Seconds([&] {
      if (!backend.Apply({update.view()}).ok()) state.SkipWithError("Apply");
    });
    update_seconds += seconds;
    state.SetIterationTime(seconds);
  }
  const double iterations = state.iterations();
  const double speed = bytes_moved * iterations / update_seconds;
  const double copy_speed = copy.bytes_moved() * iterations / copy_seconds;
  state.counters["GB/s"] = speed / 1e9;
  state.counters["memcpy_GB/s"] = copy_speed / 1e9;
  state.counters["of_memcpy"] = speed / copy_speed;
  // How fast it moves all the bytes that its passes read and write.
  state.counters["passes_of_memcpy"] =
      speed / copy_speed * (1 + bytes_read_for_sums / bytes_moved);
}

const RuleSpec kAdam = {"adam", {}};
const RuleSpec kAdamExpression = {
    .name = "expression",
    .hyperparameters = {{"beta1", 0.9},
                        {"beta2", 0.999},
                        {"epsilon", 1e-8},
                        {"learning_rate", 0.001}},
    .expression =
        "state mean, variance\n"
        "mean = beta1*mean + (1 - beta1)*grad\n"
        "variance = beta2*variance + (1 - beta2)*(grad*grad)\n"
        "rate = learning_rate * sqrt(1 - pow(beta2, step))"
        " / (1 - pow(beta1, step))\n"
        "stored -= rate * mean / (sqrt(variance) + epsilon)"};
const RuleSpec kMomentum = {"sgd", {{"momentum", 0.9}}};
const RuleSpec kSgd = {"sgd", {}};

BENCHMARK_CAPTURE(UpdateLarge, adam_f32, kAdam, DType::kF32, 1)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, adam_expression_f32, kAdamExpression,
                  DType::kF32, 1)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, sgd_momentum_f32, kMomentum, DType::kF32, 1)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, sum_of_8_sgd_f32, kSgd, DType::kF32, 8)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, adam_bf16_master, kAdam, DType::kBF16, 1)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, sum_of_8_sgd_bf16_master, kSgd, DType::kBF16, 8)
    ->UseManualTime();

// Every other rule, as update_rule/NAME.
[[maybe_unused]] const bool kAreRulesRegistered = [] {
  for (const char* text : {"sgd",        "nag",
                           "amsgrad",    "adamw",
                           "adamax",     "nadam",
                           "adabelief",  "adagrad",
                           "rmsprop",    "rmsprop(centered=1)",
                           "adadelta",   "ftrl",
                           "ftml",       "signum",
                           "signsgd",    "sgld",
                           "dcasgd",     "lion",
                           "lars",       "lamb",
                           "lans",       "average",
                           "accumulate", "groupadagrad",
                           "adafactor",  "radam"}) {
    benchmark::RegisterBenchmark(
        (std::string("update_rule/") + text).c_str(),
        [spec = ParseRuleSpec(text).value()](benchmark::State& state) {
          UpdateLarge(state, spec, DType::kF32, 1);
        })
        ->UseManualTime();
  }
  return true;
}();

}  // namespace
}  // namespace tensorkv::bench

BENCHMARK_MAIN();
