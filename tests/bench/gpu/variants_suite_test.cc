#include "bench/gpu/variants_suite.h"

#include <memory>

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::Comparisons;
using ::tensorkv::testing::FakeGpu;
using ::testing::ElementsAre;

class VariantsSuiteTest : public testing::GpuSuiteTest {
 protected:
  FakeGpu variant_gpu_;
  const std::unique_ptr<CudaBackend> variant_ =
      CudaBackend::Create(variant_gpu_.Open(),
                          {.quota_bytes = kQuotaBytes,
                           .updates = {.num_parts = 2, .max_table_beside = 0}})
          .value();
};

TEST_F(VariantsSuiteTest, EveryFigureIsBesideThatOfServers) {
  RowRunner runner = Runner();

  const Section section =
      MeasureVariant("other", variant_.get(), backend_.get(), sizes_, &runner);

  ExpectComplete(section);
  EXPECT_GT(variant_gpu_.num_launches(), 0);
  EXPECT_THAT(
      Comparisons(section),
      ElementsAre(
          "variant/other/update/adam/f32/80000B by as servers have it",
          "variant/other/update/sgd_momentum/f32/80000B by as servers have it",
          "variant/other/update/sum_of_8_sgd/f32/80000B by as servers have it",
          "variant/other/update/adam/bf16_master/40000B by as servers have it",
          "variant/other/batch/adam/f32/100x256B by as servers have it",
          "variant/other/batch/adam/f32/5x256B by as servers have it",
          "variant/other/push/whole/512KiB by as servers have it"));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
