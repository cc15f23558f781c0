// What it costs the client to compress a contribution of f32, in CPU time of
// one thread for each element: of a push that is made.
//
//   bazel build //bench:compression_benchmark
//   bazel-bin/bench/compression_benchmark --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/compression/compressor.h"

namespace tensorkv {
namespace {

Tensor NormalNumbers(int64_t num_elements) {
  Tensor tensor = Tensor::Allocate(DType::kF32, {num_elements}).value();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& element : tensor.mutable_elements<float>()) {
    element = normal(random);
  }
  return tensor;
}

void Compress(benchmark::State& state, const std::string& compression) {
  const Tensor tensor = NormalNumbers(state.range(0));
  Compressor compressor(
      {.rules = {{"", Compression::Parse(compression).value()}}});
  for (auto _ : state) {
    LeftOut left(/*takes_casts=*/false);
    if (!compressor.Compress(0, {{.key = "w", .tensor = tensor}}, &left).ok()) {
      state.SkipWithError("Compress");
    }
    left.Keep();
  }
  state.counters["s/element"] =
      benchmark::Counter(static_cast<double>(state.range(0)),
                         benchmark::Counter::kIsIterationInvariantRate |
                             benchmark::Counter::kInvert);
}

[[maybe_unused]] const bool kAreRegistered = [] {
  for (const char* compression :
       {"2bit:0.5", "1bit:0", "sign", "f16", "f16,feedback", "bf16",
        "bf16,feedback", "f8e4m3fn", "f8e5m2", "i8:64", "topk:0.01",
        "randomk:0.01", "dithering:4", "dithering:8,natural"}) {
    benchmark::RegisterBenchmark(absl::StrCat("Compress/", compression).c_str(),
                                 Compress, compression)
        ->Arg(1 << 18)
        ->Arg(1 << 22);
  }
  return true;
}();

}  // namespace
}  // namespace tensorkv

BENCHMARK_MAIN();
