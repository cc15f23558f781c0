// How fast the CPU backend updates large tensors: bytes per second that the
// update must move, beside a parallel memcpy that is timed in turns with it.
// Tiny tensors: time per tensor of a batch.
//
//   bazel build //bench:kernels_benchmark
//   bazel-bin/bench/kernels_benchmark --benchmark_repetitions=9

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

// 64 MiB of f32: far more than the caches hold.
constexpr int64_t kLargeElements = 16 * 1024 * 1024;

int NumThreads() { return std::max(1u, std::thread::hardware_concurrency()); }

Tensor MakeTensor(DType dtype, int64_t num_elements) {
  return Tensor::Filled(dtype, {num_elements}, 0.5).value();
}

// One key's tensors, updated in place.
class KeyUpdate {
 public:
  KeyUpdate(const UpdateRule& rule, DType dtype, int64_t num_elements,
            int num_contributions)
      : rule_(rule), value_(MakeTensor(dtype, num_elements)) {
    for (int i = 0; i < num_contributions; ++i) {
      tensors_.push_back(MakeTensor(dtype, num_elements));
      contributions_.push_back(tensors_.back().view());
    }
    for (int i = 0; i < rule.num_states(); ++i) {
      tensors_.push_back(MakeTensor(AccumulateType(dtype), num_elements));
      states_.push_back(tensors_.back().mutable_view());
    }
    if (rule.keeps_master(dtype)) {
      tensors_.push_back(MakeTensor(DType::kF32, num_elements));
      master_ = tensors_.back().mutable_view();
    }
  }

  TensorUpdate view() {
    return {.rule = &rule_,
            .stored = value_.view(),
            .contributions = contributions_,
            .states = states_,
            .master = master_,
            .value = value_.mutable_view()};
  }

  // What one update must read and write at least.
  double bytes_moved() const {
    double bytes = 0;
    for (const TensorView& view : contributions_) bytes += view.size_bytes();
    for (const MutableTensorView& view : states_)
      bytes += 2 * view.size_bytes();
    // The master is read in place of the value.
    bytes += 2.0 * master_.size_bytes();
    return bytes + (master_.data ? 1.0 : 2.0) * value_.size_bytes();
  }

 private:
  const UpdateRule& rule_;
  Tensor value_;
  std::vector<Tensor> tensors_;
  std::vector<TensorView> contributions_;
  std::vector<MutableTensorView> states_;
  MutableTensorView master_;
};

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

void UpdateLarge(benchmark::State& state, const RuleSpec& spec, DType dtype,
                 int num_contributions) {
  const UpdateRule rule = UpdateRule::Create(spec).value();
  KeyUpdate update(rule, dtype, kLargeElements, num_contributions);
  CpuBackend backend(NumThreads());
  ParallelCopy copy(NumThreads());
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
  const double speed = update.bytes_moved() * iterations / update_seconds;
  const double copy_speed = copy.bytes_moved() * iterations / copy_seconds;
  state.counters["GB/s"] = speed / 1e9;
  state.counters["memcpy_GB/s"] = copy_speed / 1e9;
  state.counters["of_memcpy"] = speed / copy_speed;
}

void UpdateManyTiny(benchmark::State& state) {
  constexpr int kNumTensors = 10'000;
  const UpdateRule rule = UpdateRule::Create({"adam"}).value();
  CpuBackend backend(/*num_threads=*/1);
  std::vector<KeyUpdate> keys;
  std::vector<TensorUpdate> batch;
  for (int i = 0; i < kNumTensors; ++i) {
    keys.emplace_back(rule, DType::kF32, state.range(0), 1);
  }
  for (KeyUpdate& key : keys) batch.push_back(key.view());
  for (auto _ : state) {
    if (!backend.Apply(batch).ok()) state.SkipWithError("Apply");
  }
  state.counters["s/tensor"] = benchmark::Counter(
      kNumTensors, benchmark::Counter::kIsIterationInvariantRate |
                       benchmark::Counter::kInvert);
}

const RuleSpec kAdam = {"adam", {}};
const RuleSpec kMomentum = {"sgd", {{"momentum", 0.9}}};
const RuleSpec kSgd = {"sgd", {}};

BENCHMARK_CAPTURE(UpdateLarge, adam_f32, kAdam, DType::kF32, 1)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, sgd_momentum_f32, kMomentum, DType::kF32, 1)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, sum_of_8_sgd_f32, kSgd, DType::kF32, 8)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, adam_bf16_master, kAdam, DType::kBF16, 1)
    ->UseManualTime();
BENCHMARK_CAPTURE(UpdateLarge, sum_of_8_sgd_bf16_master, kSgd, DType::kBF16, 8)
    ->UseManualTime();
BENCHMARK(UpdateManyTiny)->Arg(1)->Arg(64);

}  // namespace
}  // namespace tensorkv

BENCHMARK_MAIN();
