#include "kernels/cuda/cuda_status.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::StatusIs;

absl::StatusCode CodeOf(cudaError_t error) {
  return StatusOfCuda(error, "call").code();
}

TEST(CudaStatusTest, SuccessIsOk) {
  EXPECT_OK(StatusOfCuda(cudaSuccess, "call"));
}

TEST(CudaStatusTest, MessageHasCallNameAndDescription) {
  EXPECT_THAT(
      StatusOfCuda(cudaErrorMemoryAllocation, "cudaHostAlloc of 1024 bytes"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "cudaHostAlloc of 1024 bytes: "
               "cudaErrorMemoryAllocation (out of memory)"));
}

TEST(CudaStatusTest, WithoutAUsableGpuItIsAFailedPrecondition) {
  for (const cudaError_t error :
       {cudaErrorNoDevice, cudaErrorInvalidDevice, cudaErrorInsufficientDriver,
        cudaErrorStubLibrary, cudaErrorSystemDriverMismatch,
        cudaErrorNoKernelImageForDevice, cudaErrorDevicesUnavailable}) {
    EXPECT_EQ(CodeOf(error), absl::StatusCode::kFailedPrecondition) << error;
    EXPECT_FALSE(MeansDeviceFailed(error)) << error;
  }
}

TEST(CudaStatusTest, KernelsThatTheBuildLeftOutAreAFailedPrecondition) {
  for (const cudaError_t error :
       {cudaErrorInvalidDeviceFunction, cudaErrorNoKernelImageForDevice}) {
    EXPECT_EQ(CodeOf(NormalizeLoadError(error)),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(NormalizeLoadError(cudaSuccess), cudaSuccess);
  EXPECT_EQ(NormalizeLoadError(cudaErrorMemoryAllocation),
            cudaErrorMemoryAllocation);
}

// Every number that CUDA could give, known or not.
TEST(CudaStatusTest, WhatFailsTheDeviceIsUnavailableAndNothingElse) {
  for (int number = 1; number < 1100; ++number) {
    const auto error = static_cast<cudaError_t>(number);
    EXPECT_EQ(CodeOf(error) == absl::StatusCode::kUnavailable,
              MeansDeviceFailed(error))
        << number;
    EXPECT_NE(CodeOf(error), absl::StatusCode::kOk) << number;
  }
}

TEST(CudaStatusTest, StickyErrorsFailTheDevice) {
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure,
        cudaErrorMisalignedAddress, cudaErrorECCUncorrectable, cudaErrorAssert,
        cudaErrorLaunchTimeout, cudaErrorUnknown}) {
    EXPECT_TRUE(MeansDeviceFailed(error)) << error;
  }
  for (const cudaError_t error :
       {cudaErrorInvalidValue, cudaErrorMemoryAllocation,
        cudaErrorInvalidConfiguration, cudaErrorNotReady}) {
    EXPECT_FALSE(MeansDeviceFailed(error)) << error;
  }
}

TEST(CudaStatusTest, OthersAreInternal) {
  EXPECT_EQ(CodeOf(cudaErrorInvalidValue), absl::StatusCode::kInternal);
  EXPECT_EQ(CodeOf(cudaErrorInvalidConfiguration), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace tensorkv
