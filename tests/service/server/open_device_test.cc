#include "service/server/open_device.h"

#include <memory>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::StatusIs;
using Kind = DeviceChoice::Kind;

// Stands for a GPU.
constexpr uint64_t kGpuBytes = 12345;

absl::StatusOr<OpenedCudaBackend> OpenGpu3(int ordinal) {
  EXPECT_EQ(ordinal, 3);
  return OpenedCudaBackend{std::make_unique<CpuBackend>(1), kGpuBytes,
                           [] { return DeviceUsage{.used_bytes = 7}; }};
}

absl::StatusOr<OpenedCudaBackend> OpenReally(int ordinal) {
  return OpenCudaBackend(ordinal);
}

absl::StatusOr<OpenedCudaBackend> OpenNothing(int /*ordinal*/) {
  return absl::ResourceExhaustedError("all taken");
}

absl::StatusOr<OpenedCudaBackend> MustNotOpen(int /*ordinal*/) {
  ADD_FAILURE() << "a GPU was asked for";
  return absl::InternalError("no GPU was asked for");
}

TEST(OpenDeviceTest, CpuAsksForNoGpu) {
  ASSERT_OK_AND_ASSIGN(const OpenedDevice opened,
                       OpenDevice({Kind::kCpu}, 1, MustNotOpen));

  EXPECT_EQ(opened.backend->name(), "cpu");
  EXPECT_GT(opened.memory_bytes, 0);
  EXPECT_EQ(opened.why_not_cuda, "");
}

TEST(OpenDeviceTest, GpuThatCanBeUsedIsTaken) {
  for (const Kind kind : {Kind::kCuda, Kind::kAuto}) {
    ASSERT_OK_AND_ASSIGN(const OpenedDevice opened,
                         OpenDevice({kind, 3}, 1, OpenGpu3));

    EXPECT_EQ(opened.memory_bytes, kGpuBytes);
    EXPECT_EQ(opened.usage().used_bytes, 7u);
    EXPECT_EQ(opened.why_not_cuda, "");
  }
}

TEST(OpenDeviceTest, GpuThatWasAskedForAndCannotBeUsedIsAnError) {
  EXPECT_THAT(OpenDevice({Kind::kCuda, 3}, 1, OpenNothing),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "--device=cuda:3: cannot use that GPU: all taken"));
}

TEST(OpenDeviceTest, AutoFallsBackToTheCpuAndSaysWhy) {
  ASSERT_OK_AND_ASSIGN(const OpenedDevice opened,
                       OpenDevice({Kind::kAuto}, 1, OpenNothing));

  EXPECT_EQ(opened.backend->name(), "cpu");
  EXPECT_EQ(opened.why_not_cuda, "all taken");
}

// On any machine, with and without a GPU, a driver and the toolkit.
TEST(OpenDeviceTest, AutoAlwaysEndsSomewhere) {
  ASSERT_OK_AND_ASSIGN(const OpenedDevice opened,
                       OpenDevice({Kind::kAuto}, 1, OpenReally));

  EXPECT_EQ(opened.backend->name() == "cpu", !opened.why_not_cuda.empty());
}

TEST(OpenDeviceTest, GpuThatNobodyHasIsOneLine) {
  const absl::Status status =
      OpenDevice({Kind::kCuda, 1000}, 1, OpenReally).status();

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               ::testing::StartsWith("--device=cuda:1000: ")));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

}  // namespace
}  // namespace tensorkv
