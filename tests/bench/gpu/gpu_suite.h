// The benchmark's suites on a fake GPU, with a little of everything.

#ifndef TENSORKV_TESTS_BENCH_GPU_GPU_SUITE_H_
#define TENSORKV_TESTS_BENCH_GPU_GPU_SUITE_H_

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/data_path/suites/row_runner.h"
#include "bench/gpu/comparison.h"
#include "bench/gpu/sizes.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/bench/gpu/host_copies.h"
#include "tests/testing/fake_gpu.h"

namespace tensorkv::testing {

// "NAME by LIMIT >= GOAL" of each comparison, as far as there is one.
inline std::vector<std::string> Summaries(
    const bench::gpu::ComparisonTable& table) {
  std::vector<std::string> summaries;
  for (const bench::gpu::Comparison& comparison : table.comparisons) {
    std::string& text = summaries.emplace_back(comparison.name);
    if (!comparison.limit) continue;
    absl::StrAppend(&text, " by ", comparison.limit->name);
    if (!comparison.limit->goal) continue;
    absl::StrAppend(&text, " >= ", *comparison.limit->goal);
  }
  return summaries;
}

class GpuSuiteTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kQuotaBytes = 64 << 20;

  // One short trial of each load whose name has `only`.
  bench::RowRunner Runner(const std::string& only = "") {
    return bench::RowRunner(
        {.measure = {.repetitions = 1, .trial_time = absl::Nanoseconds(1)},
         .only = only},
        &progress_);
  }

  // Whether all figures were measured, and say something.
  static void ExpectComplete(const bench::gpu::ComparisonTable& table) {
    for (const bench::gpu::Comparison& comparison : table.comparisons) {
      EXPECT_GT(comparison.bytes, 0) << comparison.name;
      EXPECT_GT(comparison.ours, 0) << comparison.name;
      if (!comparison.limit) continue;
      EXPECT_GT(comparison.limit->value, 0) << comparison.name;
      EXPECT_GT(comparison.limit->ratio, 0) << comparison.name;
    }
    EXPECT_TRUE(table.left_out.empty()) << table.left_out.front();
  }

  bench::gpu::Sizes sizes_ = {.update_elements = 20'000,
                              .num_small = 5,
                              .small_bytes = 256,
                              .staged_bytes = 3 << 20,
                              .staging_callers = {1, 2},
                              .pushed_bytes = 4096,
                              .message_bytes = {4096, 2 << 20},
                              .messages_in_flight = {1, 2}};
  std::ostringstream progress_;
  FakeGpu gpu_;
  const std::unique_ptr<CudaBackend> backend_ =
      CudaBackend::Create(gpu_.Open(), {.quota_bytes = kQuotaBytes}).value();
  HostCopies copies_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_BENCH_GPU_GPU_SUITE_H_
