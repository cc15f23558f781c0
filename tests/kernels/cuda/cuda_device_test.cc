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
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace testing {
namespace {

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
  ASSERT_OK(stream_->SetZero(static_cast<char*>(memory) + 4, 4));
  ASSERT_OK(stream_->CopyToHost(pinned.data(), memory, 8));
  ASSERT_OK(stream_->Record(*done));
  ASSERT_OK(done->Wait());

  EXPECT_EQ(std::string(pinned.data(), 8), std::string("abcd\0\0\0\0", 8));
  EXPECT_OK(device_->Free(memory, *stream_));
}

TEST_F(CudaDeviceOnGpuTest, MoreThanThereIsIsResourceExhaustedAndNotFatal) {
  EXPECT_THAT(device_->Allocate(size_t{1} << 50, *stream_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("of 1125899906842624 bytes")));

  EXPECT_OK(device_->health().status());
  EXPECT_OK(stream_->Synchronize());
}

TEST_F(CudaDeviceOnGpuTest, BackendGivesTheBitsOfTheCpuBackend) {
  std::vector<UpdateCase> cases = SmallCases();
  for (const UpdateCase& large : LargeCases()) cases.push_back(large);
  CpuBackend cpu(1);
  ASSERT_OK_AND_ASSIGN(const auto backend, OnGpu::Create());

  ASSERT_OK_AND_ASSIGN(const auto expected, ResultBytes(cpu, cases));
  ASSERT_OK_AND_ASSIGN(const auto actual, ResultBytes(*backend, cases));

  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(actual[i], expected[i]) << cases[i].ToString();
  }
}

}  // namespace
}  // namespace testing
}  // namespace tensorkv
