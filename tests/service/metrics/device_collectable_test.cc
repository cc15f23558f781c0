#include "service/metrics/device_collectable.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/metrics/exposition.h"

namespace tensorkv {
namespace {

using testing::Exposition;
using ::testing::HasSubstr;

TEST(DeviceCollectableTest, ShowsEveryNumberOfTheUsage) {
  const auto usage = [] {
    return DeviceUsage{.used_bytes = 1,
                       .quota_bytes = 2,
                       .num_staging_slots = 3,
                       .num_staging_slots_in_use = 4,
                       .pinned_bytes = 9,
                       .pinned_bytes_in_use = 10,
                       .batches = {.num_batches = 5,
                                   .num_calls = 6,
                                   .queued = absl::Seconds(7),
                                   .running = absl::Seconds(8)}};
  };
  const DeviceCollectable collectable("cuda:1", usage);

  const std::string text = Exposition(collectable);

  EXPECT_THAT(
      text,
      HasSubstr("tensorkv_device_memory_used_bytes{device=\"cuda:1\"} 1\n"));
  EXPECT_THAT(
      text,
      HasSubstr("tensorkv_device_memory_quota_bytes{device=\"cuda:1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_staging_slots{device=\"cuda:1\"} 3\n"));
  EXPECT_THAT(
      text, HasSubstr("tensorkv_staging_slots_in_use{device=\"cuda:1\"} 4\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_pinned_memory_bytes{device=\"cuda:1\"} 9\n"));
  EXPECT_THAT(
      text,
      HasSubstr("tensorkv_pinned_memory_used_bytes{device=\"cuda:1\"} 10\n"));
  EXPECT_THAT(
      text,
      HasSubstr("tensorkv_device_batch_seconds_count{device=\"cuda:1\"} 5\n"));
  EXPECT_THAT(
      text,
      HasSubstr("tensorkv_device_queue_seconds_count{device=\"cuda:1\"} 6\n"));
  EXPECT_THAT(
      text,
      HasSubstr("tensorkv_device_queue_seconds_sum{device=\"cuda:1\"} 7\n"));
  EXPECT_THAT(
      text,
      HasSubstr("tensorkv_device_batch_seconds_sum{device=\"cuda:1\"} 8\n"));
}

TEST(DeviceCollectableTest, ShowsNothingOfADeviceWithoutUsage) {
  EXPECT_EQ(Exposition(DeviceCollectable("cpu", nullptr)), "");
}

}  // namespace
}  // namespace tensorkv
