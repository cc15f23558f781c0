#include "kernels/cuda/cuda_device.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/pinned_slots.h"
#include "tests/contracts/backend/backend_contract.h"
#include "tests/contracts/backend/update_case.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Why no test can use a GPU here; empty if one can.
std::string WhyNoGpu() {
  const absl::StatusOr<int> num_devices = NumCudaDevices();
  if (!num_devices.ok()) return std::string(num_devices.status().message());
  return *num_devices == 0 ? "the driver shows no GPU" : "";
}

struct OnGpu {
  static std::string WhySkipped() { return WhyNoGpu(); }
  static absl::StatusOr<std::unique_ptr<Backend>> Create() {
    ASSIGN_OR_RETURN(auto device, CudaDevice::Create(0));
    return CudaBackend::Create(std::move(device),
                               {.quota_bytes = uint64_t{1} << 30});
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, BackendContractTest, OnGpu);

TEST(CudaDeviceTest, GpuThatIsNotThereIsAFailedPrecondition) {
  for (const int ordinal : {-1, 1000}) {
    EXPECT_THAT(CudaDevice::Create(ordinal),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         ::testing::AnyOf(HasSubstr("the driver shows"),
                                          HasSubstr("cudaGetDeviceCount"))));
  }
}

// value += gradient
absl::Status Accumulate(Backend& backend, const TensorView& gradient,
                        const MutableTensorView& value) {
  ASSIGN_OR_RETURN(const UpdateRule rule,
                   UpdateRule::Create({"accumulate", {}}));
  TensorUpdate update;
  update.rule = &rule;
  update.stored = value;
  update.value = value;
  update.contributions = {&gradient, 1};
  return backend.Apply({&update, 1});
}

class CudaDeviceOnGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyNoGpu(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    ASSERT_OK_AND_ASSIGN(device_, CudaDevice::Create(0));
    ASSERT_OK_AND_ASSIGN(stream_, device_->CreateStream(StreamUse::kCompute));
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(CudaDeviceOnGpuTest, BytesGoThereAndBack) {
  ASSERT_OK_AND_ASSIGN(const PinnedMemory pinned,
                       PinnedMemory::Create(device_.get(), 8));
  std::memcpy(pinned.data(), "abcdefg", 8);
  ASSERT_OK_AND_ASSIGN(void* const memory, device_->Allocate(8, *stream_));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Event> done,
                       device_->CreateEvent());

  ASSERT_OK(stream_->CopyToDevice(memory, pinned.data(), 8));
  ASSERT_OK(stream_->CopyToHost(pinned.data() + 4, memory, 4));
  ASSERT_OK(stream_->Record(*done));
  ASSERT_OK(done->Wait());

  EXPECT_EQ(std::string(pinned.data(), 8), "abcdabcd");
  EXPECT_OK(device_->Free(memory, *stream_));
}

TEST_F(CudaDeviceOnGpuTest, MoreThanThereIsIsResourceExhaustedAndNotFatal) {
  EXPECT_THAT(device_->Allocate(size_t{1} << 50, *stream_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("of 1125899906842624 bytes")));

  EXPECT_OK(device_->health().status());
  EXPECT_OK(stream_->Synchronize());
}

// Reads where it lies in page-locked memory.
TEST_F(CudaDeviceOnGpuTest, ContributionInPinnedMemoryIsRead) {
  ASSERT_OK_AND_ASSIGN(const auto backend, OnGpu::Create());
  ASSERT_OK_AND_ASSIGN(const RefPtr<Buffer> pinned,
                       backend->AllocateStaging(4000, nullptr));
  const Tensor gradient = *Tensor::Filled(DType::kF32, {1000}, 3);
  std::memcpy(pinned->mutable_data(), gradient.data(), 4000);
  ASSERT_OK_AND_ASSIGN(
      Tensor value,
      ToDevice(*backend, *Tensor::Filled(DType::kF32, {1000}, 4)));
  ASSERT_TRUE(backend->CanRead(pinned->data(), 4000));

  ASSERT_OK(Accumulate(*backend, {DType::kF32, 1000, pinned->data()},
                       value.mutable_view()));

  ASSERT_OK_AND_ASSIGN(const Tensor sum, ToHost(*backend, value));
  EXPECT_THAT(sum.elements<float>(), Each(7));
}

TEST_F(CudaDeviceOnGpuTest, ElementsBeyond32BitsAreReached) {
  constexpr uint64_t kNumElements = (uint64_t{1} << 32) + 20'001;
  ASSERT_OK_AND_ASSIGN(
      const auto backend,
      CudaBackend::Create(std::move(device_),
                          {.quota_bytes = uint64_t{10} << 30}));
  absl::StatusOr<RefPtr<Buffer>> value = backend->Allocate(kNumElements, {});
  absl::StatusOr<RefPtr<Buffer>> gradient = backend->Allocate(kNumElements, {});
  if (!value.ok() || !gradient.ok()) {
    GTEST_SKIP() << "the GPU has not 9 GB free";
  }
  const MutableTensorView views[] = {
      {DType::kU8, int64_t{kNumElements}, (*value)->mutable_data()},
      {DType::kU8, int64_t{kNumElements}, (*gradient)->mutable_data()}};
  ASSERT_OK(backend->Zero(views));
  const uint64_t places[] = {0, (uint64_t{1} << 31) - 1,
                             (uint64_t{1} << 31) + 1, uint64_t{1} << 32,
                             kNumElements - 1};
  const char three = 3;
  std::vector<MemoryCopy> up;
  for (const uint64_t place : places) {
    up.push_back({&three, (*gradient)->mutable_data() + place, 1});
  }
  ASSERT_OK(backend->CopyToDevice(up));

  for (int i = 0; i < 2; ++i)
    ASSERT_OK(Accumulate(*backend, views[1], views[0]));

  for (const uint64_t place : places) {
    char read = 0;
    ASSERT_OK(
        backend->Run({.downloads = {{(*value)->data() + place, &read, 1}}}));
    EXPECT_EQ(read, 6) << place;
  }
}

// Whether memory comes from a pool or not.
TEST_F(CudaDeviceOnGpuTest, BackendGivesTheBitsOfTheCpuBackend) {
  std::vector<UpdateCase> cases = SmallCases();
  for (const UpdateCase& large : LargeCases()) cases.push_back(large);
  for (const UpdateCase& special : SpecialCases()) cases.push_back(special);
  CpuBackend cpu(1);
  ASSERT_OK_AND_ASSIGN(const auto expected, ResultBytes(cpu, cases));
  for (const bool uses_pool : {true, false}) {
    ASSERT_OK_AND_ASSIGN(auto device,
                         CudaDevice::Create(0, {.uses_pool = uses_pool}));
    ASSERT_OK_AND_ASSIGN(
        const auto backend,
        CudaBackend::Create(std::move(device), {.quota_bytes = 1 << 30}));

    ASSERT_OK_AND_ASSIGN(const auto actual, ResultBytes(*backend, cases));

    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(actual[i], expected[i]) << cases[i].ToString();
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace tensorkv
