#include "service/metrics/device_collectable.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

  for (const auto& [name, value] : {std::pair("device_memory_used_bytes", 1),
                                    {"device_memory_quota_bytes", 2},
                                    {"staging_slots", 3},
                                    {"staging_slots_in_use", 4},
                                    {"device_batch_seconds_count", 5},
                                    {"device_queue_seconds_count", 6},
                                    {"device_queue_seconds_sum", 7},
                                    {"device_batch_seconds_sum", 8},
                                    {"pinned_memory_bytes", 9},
                                    {"pinned_memory_used_bytes", 10}}) {
    EXPECT_THAT(
        text, HasSubstr(absl::StrCat("tensorkv_", name, "{device=\"cuda:1\"} ",
                                     value, "\n")));
  }
}

TEST(DeviceCollectableTest, ShowsNothingOfADeviceWithoutUsage) {
  EXPECT_EQ(Exposition(DeviceCollectable("cpu", nullptr)), "");
}

}  // namespace
}  // namespace tensorkv
