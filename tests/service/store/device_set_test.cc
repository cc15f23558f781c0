#include "service/store/device_set.h"

#include <atomic>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::StatusIs;
using ::testing::UnorderedElementsAre;

class DeviceSetTest : public ::testing::Test {
 protected:
  testing::ScriptedBackend backends_[3];
  const DeviceSet devices_{{&backends_[0], &backends_[1], &backends_[2]}};
};

TEST_F(DeviceSetTest, ForEachCallsTheUsedOnes) {
  Mutex mutex;
  std::vector<int> called;

  EXPECT_OK(devices_.ForEach(0b101, [&](DeviceIndex device) {
    MutexLock lock(&mutex);
    called.push_back(device);
    return absl::OkStatus();
  }));
  EXPECT_OK(devices_.ForEach(
      0, [](DeviceIndex) { return absl::InternalError("called"); }));

  EXPECT_THAT(called, UnorderedElementsAre(0, 2));
}

// Each waits for the others.
TEST_F(DeviceSetTest, ForEachCallsAllAtTheSameTime) {
  Notification begun[3];

  EXPECT_OK(devices_.ForEach(0b111, [&](DeviceIndex device) {
    begun[device].Notify();
    for (Notification& each : begun) each.WaitForNotification();
    return absl::OkStatus();
  }));
}

TEST_F(DeviceSetTest, ForEachReturnsTheErrorOfAnyWhenAllHaveEnded) {
  for (const DeviceIndex failing : {0, 1, 2}) {
    std::atomic<int> num_called = 0;
    EXPECT_THAT(devices_.ForEach(0b111,
                                 [&](DeviceIndex device) {
                                   ++num_called;
                                   return device == failing
                                              ? absl::InternalError("one")
                                              : absl::OkStatus();
                                 }),
                StatusIs(absl::StatusCode::kInternal, "one"));
    EXPECT_EQ(num_called, 3);
  }
}

TEST_F(DeviceSetTest, CopyOfNothingEndsAtOnce) {
  absl::Status status = absl::UnknownError("not called");

  devices_.CopyToHost(CopiesByDevice(3),
                      [&](absl::Status ended) { status = ended; });

  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace tensorkv
