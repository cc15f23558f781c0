#include "tests/testing/fake_gpu.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {
namespace {

// Doubles `num_elements` of f32 in memory that has place for 100.
absl::Status DoubleOutOf100(int num_elements) {
  FakeGpu gpu;
  const auto backend =
      CudaBackend::Create(gpu.Open(), {.quota_bytes = 4 << 20});
  const RefPtr<Buffer> buffer = *(*backend)->Allocate(400, nullptr);
  const UpdateRule accumulate = *UpdateRule::Create({"accumulate"});
  const MutableTensorView tensor = {DType::kF32, num_elements,
                                    buffer->mutable_data()};
  const TensorView contribution = tensor;
  return (*backend)->Apply({{.rule = &accumulate,
                             .stored = contribution,
                             .contributions = {&contribution, 1},
                             .value = tensor}});
}

TEST(FakeGpuTest, KernelMayUseAllOfItsMemory) {
  EXPECT_OK(DoubleOutOf100(100));
}

TEST(FakeGpuDeathTest, KernelThatWritesBeyondItsMemoryEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");

  EXPECT_DEATH(DoubleOutOf100(101).IgnoreError(),
               "400 bytes was written beyond its end|use-after-poison");
}

}  // namespace
}  // namespace tensorkv::testing
