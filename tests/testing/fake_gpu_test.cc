#include "tests/testing/fake_gpu.h"

#include <functional>
#include <memory>
#include <utility>

#include "base/answer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/fake_stream_handle.h"
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

TEST(FakeGpuTest, StreamStandsStillUntilALibraryOpensIt) {
  FakeGpu gpu;
  const std::unique_ptr<Device> device = gpu.Open();
  const auto stream = *device->CreateStream(StreamUse::kLink);
  ASSERT_OK_AND_ASSIGN(void* const memory, device->Allocate(64, *stream));
  auto* const handle = static_cast<FakeStreamHandle*>(stream->handle());
  const Answer<std::function<void()>> started;

  handle->Enqueue([=](std::function<void()> open) {
    started.Set(std::move(open));
    return handle->Find(memory, 64) != nullptr &&
           handle->Find(memory, 65) == nullptr;
  });

  const std::function<void()> open = started.Wait();
  EXPECT_THAT(stream->IsDone(), IsOkAndHolds(false));
  open();
  ASSERT_OK(stream->Synchronize());
  EXPECT_THAT(stream->IsDone(), IsOkAndHolds(true));
  EXPECT_OK(device->Free(memory, *stream));
}

}  // namespace
}  // namespace tensorkv::testing
