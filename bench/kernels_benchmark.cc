// How fast the CPU backend updates large tensors: bytes per second that the
// update must move, beside a parallel memcpy.
//
//   bazel build //bench:kernels_benchmark
//   bazel-bin/bench/kernels_benchmark --only adam

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cores.h"
#include "base/status_macros.h"
#include "bench/harness/run.h"
#include "bench/updates.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"

namespace tensorkv::bench {
namespace {

// 64 MiB of f32: far more than the caches hold.
constexpr int64_t kElements = 16 * 1024 * 1024;
// Of these, for rules that keep a state per row or column.
constexpr int64_t kRows = 4096;

constexpr char kAdamExpression[] =
    "expression(beta1=0.9, beta2=0.999, epsilon=1e-8, learning_rate=0.001): "
    "state mean, variance\n"
    "mean = beta1*mean + (1 - beta1)*grad\n"
    "variance = beta2*variance + (1 - beta2)*(grad*grad)\n"
    "rate = learning_rate * sqrt(1 - pow(beta2, step))"
    " / (1 - pow(beta1, step))\n"
    "stored -= rate * mean / (sqrt(variance) + epsilon)";

// Copies on as many threads as the backend has.
absl::StatusOr<Load> CopyLoad() {
  struct Copy {
    ThreadPool threads{NumCores()};
    Tensor from;
    Tensor to;
  };
  const auto copy = std::make_shared<Copy>();
  for (Tensor* const tensor : {&copy->from, &copy->to}) {
    ASSIGN_OR_RETURN(*tensor, Tensor::Filled(DType::kF32, {kElements}, 0.5));
  }
  constexpr size_t kChunk = 128 * 1024;
  const size_t bytes = copy->from.size_bytes();
  return Load{.call =
                  [=] {
                    char* const to = copy->to.mutable_data();
                    const char* const from = copy->from.data();
                    copy->threads.ParallelFor(bytes / kChunk, [=](size_t i) {
                      std::memcpy(to + i * kChunk, from + i * kChunk, kChunk);
                    });
                    return absl::OkStatus();
                  },
              .bytes = static_cast<int64_t>(2 * bytes)};
}

Row RowOf(CpuBackend* backend, const std::string& name, const std::string& rule,
          DType dtype = DType::kF32, int num_contributions = 1) {
  return {.name = absl::StrCat("update/", name),
          .make_load = [=]() -> absl::StatusOr<Load> {
            ASSIGN_OR_RETURN(const RuleSpec spec, ParseRuleSpec(rule));
            return UpdateLoad(backend, spec,
                              {.dtype = dtype,
                               .num_elements = kElements,
                               .num_contributions = num_contributions,
                               .num_rows = kRows},
                              /*num_updates=*/1);
          },
          .references = {{"memcpy", CopyLoad, 0.8}}};
}

int Main(int argc, char** argv) {
  CLI::App app("Measures updates on the CPU beside memcpy.");
  RunFlags flags;
  AddRunFlags(&app, &flags);
  if (const auto exit_status = Parse(argc, argv, &app)) return *exit_status;
  CpuBackend backend(NumCores());
  std::vector<Row> rows;
  for (const char* const rule : {"sgd",        "sgd(momentum=0.9)",
                                 "nag",        "adam",
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
                                 "adafactor",  "radam",
                                 "yogi"}) {
    rows.push_back(RowOf(&backend, rule, rule));
  }
  rows.push_back(RowOf(&backend, "adam_expression", kAdamExpression));
  rows.push_back(RowOf(&backend, "adam/bf16_master", "adam", DType::kBF16));
  rows.push_back(RowOf(&backend, "sum_of_8_sgd", "sgd", DType::kF32, 8));
  rows.push_back(
      RowOf(&backend, "sum_of_8_sgd/bf16_master", "sgd", DType::kBF16, 8));
  RunRows(rows, flags);
  return 0;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
