// The rows of gpu_benchmark on a fake GPU, with a little of everything.

#include "bench/gpu/rows.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu/copy_watch.h"
#include "bench/harness/clocks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench::gpu {
namespace gpu_rows_test {

using ::tensorkv::testing::FakeGpu;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kQuotaBytes = 64 << 20;

class GpuRowsTest : public ::testing::Test {
 protected:
  // Measures all rows, and returns "NAME by REFERENCE" of each comparison, or
  // "NAME".
  static std::vector<std::string> Measure(const std::vector<Row>& rows) {
    std::vector<std::string> texts;
    for (const Row& row : rows) {
      const RowResult result = MeasureRow(
          row, {.repetitions = 1, .trial_time = absl::Nanoseconds(1)});
      EXPECT_OK(result.status) << row.name;
      EXPECT_THAT(result.left_out, IsEmpty()) << row.name;
      if (row.references.empty()) texts.push_back(row.name);
      for (const Reference& reference : row.references) {
        texts.push_back(absl::StrCat(row.name, " by ", reference.name));
      }
    }
    return texts;
  }

  std::vector<std::string> copied_;
  // Makes copies within the memory of the host, whatever the direction.
  const MakeCopy copy_ = [this](CopyDirection direction,
                                int64_t bytes) -> absl::StatusOr<Load> {
    copied_.push_back(absl::StrCat(static_cast<int>(direction), ":", bytes));
    return Load{
        .call =
            [from = std::string(bytes, 'x'), to = std::string()]() mutable {
              to = from;
              return absl::OkStatus();
            },
        .bytes = bytes};
  };
  const Sizes sizes_ = {.update_elements = 20'000,
                        .num_small = 5,
                        .small_bytes = 256,
                        .staged_bytes = 3 << 20,
                        .staging_callers = {1, 2},
                        .read_in_place_bytes = {4096},
                        .pushed_bytes = 512 << 10};
  FakeGpu gpu_;
  const std::unique_ptr<CudaBackend> backend_ =
      CudaBackend::Create(gpu_.Open(), {.quota_bytes = kQuotaBytes}).value();
};

TEST_F(GpuRowsTest, UpdatesAreBesideCopiesOfAsManyBytes) {
  EXPECT_THAT(Measure(UpdateRows(backend_.get(), copy_, sizes_)),
              ElementsAre("update/adam/f32/80000B by device_copy",
                          "update/sgd_momentum/f32/80000B by device_copy",
                          "update/sum_of_8_sgd/f32/80000B by device_copy",
                          "update/adam/bf16_master/40000B by device_copy",
                          "batch/adam/f32/5x256B by one_by_one",
                          "batch/adam/f32/5x256B by device_copy"));
  // A batch moves 28 bytes for each of 5 x 64 elements.
  EXPECT_THAT(copied_, ElementsAre("0:80000", "0:80000", "0:80000", "0:80000",
                                   absl::StrCat("0:", 5 * 64 * 28 / 2)));
}

TEST_F(GpuRowsTest, EveryPartOfAPushIsMeasured) {
  EXPECT_THAT(Measure(PushRows(backend_.get(), sizes_)),
              ElementsAre("push/update/512KiB", "push/copy/512KiB",
                          "push/whole/512KiB"));
}

TEST_F(GpuRowsTest, ReadingContributionsIsBesideCopyingThem) {
  EXPECT_THAT(
      Measure(ContributionRows(backend_.get(), sizes_)),
      ElementsAre("contribution/read_in_place/4KiB by copied_before",
                  "contribution/read_in_place/5x256B by copied_before"));
}

TEST_F(GpuRowsTest, StagingIsBesidePinnedCopiesOfOneCallsBytes) {
  EXPECT_THAT(Measure(StagingRows(backend_.get(), copy_, sizes_)),
              ElementsAre("staging/to_device/3MiB@1 by pinned_copy",
                          "staging/to_device/3MiB@2 by pinned_copy",
                          "staging/to_device/5x256B@1 by pinned_copy",
                          "staging/to_host/3MiB@1 by pinned_copy",
                          "staging/to_host/3MiB@2 by pinned_copy",
                          "staging/to_host/5x256B@1 by pinned_copy"));
  EXPECT_THAT(copied_, ElementsAre("1:3145728", "1:3145728", "1:1280",
                                   "2:3145728", "2:3145728", "2:1280"));
}

TEST_F(GpuRowsTest, AVariantIsBesideWhatServersHave) {
  FakeGpu variant_gpu;
  const std::unique_ptr<CudaBackend> variant =
      CudaBackend::Create(variant_gpu.Open(),
                          {.quota_bytes = kQuotaBytes,
                           .updates = {.num_parts = 2, .max_table_beside = 0}})
          .value();

  const std::vector<Row> rows = VariantRows(
      "other", [&] { return variant.get(); }, backend_.get(), sizes_);

  EXPECT_THAT(
      Measure(rows),
      ElementsAre("variant/other/update/adam/f32/80000B by servers",
                  "variant/other/update/sgd_momentum/f32/80000B by servers",
                  "variant/other/update/sum_of_8_sgd/f32/80000B by servers",
                  "variant/other/update/adam/bf16_master/40000B by servers",
                  "variant/other/batch/adam/f32/100x256B by servers",
                  "variant/other/batch/adam/f32/5x256B by servers",
                  "variant/other/push/whole/512KiB by servers"));
  EXPECT_GT(variant_gpu.num_launches(), 0);
}

TEST_F(GpuRowsTest, ADeviceThatFailsIsSaid) {
  gpu_.FailWork(2, absl::InternalError("broken"));

  const RowResult result =
      MeasureRow(PushRows(backend_.get(), sizes_).back(), {.repetitions = 1});

  EXPECT_THAT(result.status, testing::StatusIs(absl::StatusCode::kUnavailable,
                                               HasSubstr("broken")));
}

TEST_F(GpuRowsTest, SizesFitTheDevice) {
  const Sizes small = SizesFor(/*free_bytes=*/1 << 30, /*is_quick=*/false);

  EXPECT_LE(small.update_elements * 4 * 12, 1 << 30);
  EXPECT_EQ(SizesFor(uint64_t{100} << 30, false).update_elements,
            Sizes().update_elements);
  EXPECT_EQ(SizesFor(uint64_t{100} << 30, true).update_elements,
            Sizes().update_elements / 16);
}

TEST_F(GpuRowsTest, TheLastCopyBeganAndEndedInThatOrder) {
  CopyWatch watch(backend_.get());
  const Tensor seven = Tensor::Filled(DType::kF32, {3}, 7).value();
  const absl::Duration before = SteadyTime();
  ASSERT_OK_AND_ASSIGN(const Tensor there, testing::ToDevice(watch, seven));
  const CopyWatch::Times times = watch.last_copy();

  EXPECT_LE(before, times.began_at);
  EXPECT_LE(times.began_at, times.ended_at);
  EXPECT_LE(times.ended_at, SteadyTime());
  ASSERT_OK_AND_ASSIGN(const Tensor back, testing::ToHost(watch, there));
  EXPECT_EQ(back.elements<float>().back(), 7);
}

}  // namespace gpu_rows_test
}  // namespace tensorkv::bench::gpu
