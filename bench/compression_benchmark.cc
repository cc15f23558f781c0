// Measures how a client compresses a contribution of f32 on one thread:
// p50_us, and CPU seconds for each GB of it.
//
//   bazel build //bench:compression_benchmark
//   bazel-bin/bench/compression_benchmark --only topk

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/harness/run.h"
#include "client/compression/compressor.h"

namespace tensorkv::bench {
namespace {

absl::StatusOr<Load> CompressLoad(const std::string& compression,
                                  int64_t num_elements) {
  ASSIGN_OR_RETURN(Tensor tensor,
                   Tensor::Allocate(DType::kF32, {num_elements}));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& element : tensor.mutable_elements<float>()) {
    element = normal(random);
  }
  ASSIGN_OR_RETURN(const Compression parsed, Compression::Parse(compression));
  const auto compressor =
      std::make_shared<Compressor>(CompressionOptions{.rules = {{"", parsed}}});
  return Load{
      .call = [=]() -> absl::Status {
        Residuals left(/*takes_casts=*/false);
        RETURN_IF_ERROR(
            compressor->Compress(0, {{.key = "w", .tensor = tensor}}, &left)
                .status());
        left.Keep();
        return absl::OkStatus();
      },
      .bytes = tensor.size_bytes()};
}

int Main(int argc, char** argv) {
  CLI::App app("Measures what compressing costs.");
  RunFlags flags;
  AddRunFlags(&app, &flags);
  if (const auto exit_status = Parse(argc, argv, &app)) return *exit_status;
  std::vector<Row> rows;
  for (const char* const compression :
       {"2bit:0.5", "1bit:0", "sign", "f16", "f16,feedback", "bf16",
        "bf16,feedback", "f8e4m3fn", "f8e5m2", "i8:64", "topk:0.01",
        "randomk:0.01", "dithering:4", "dithering:8,natural"}) {
    for (const int mib : {1, 16}) {
      rows.push_back(
          {.name = absl::StrCat("compress/", compression, "/", mib, "MiB"),
           .make_load = [=] { return CompressLoad(compression, mib << 18); }});
    }
  }
  RunRows(rows, flags);
  return 0;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
