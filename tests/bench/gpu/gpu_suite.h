// The benchmark's suites on a fake GPU, with a little of everything.

#ifndef TENSORKV_TESTS_BENCH_GPU_GPU_SUITE_H_
#define TENSORKV_TESTS_BENCH_GPU_GPU_SUITE_H_

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu/sizes.h"
#include "bench/harness/goals.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/bench/gpu/host_copies.h"
#include "tests/testing/fake_gpu.h"

namespace tensorkv::testing {

// "NAME by REFERENCE" of each comparison, or "NAME".
inline std::vector<std::string> Comparisons(const bench::Section& section) {
  std::vector<std::string> texts;
  for (const bench::Row& row : section.rows) {
    if (row.references.empty()) texts.push_back(row.name);
    for (const bench::Reference& reference : row.references) {
      texts.push_back(absl::StrCat(row.name, " by ", reference.name));
    }
  }
  return texts;
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

  // Whether all rows were measured, and every goal has a value.
  static void ExpectComplete(const bench::Section& section) {
    for (const bench::Row& row : section.rows) {
      EXPECT_GT(row.bytes, 0) << row.name;
      EXPECT_GT(row.ours.p50_microseconds, 0) << row.name;
    }
    for (const bench::GoalResult& goal : bench::CheckGoals({section})) {
      EXPECT_TRUE(goal.value.has_value()) << goal.goal.name;
    }
    EXPECT_TRUE(section.left_out.empty()) << section.left_out.front();
  }

  bench::gpu::Sizes sizes_ = {.update_elements = 20'000,
                              .num_small = 5,
                              .small_bytes = 256,
                              .staged_bytes = 3 << 20,
                              .staging_callers = {1, 2},
                              .pushed_bytes = 512 << 10,
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
