#include "service/metrics/server_gauges.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/metrics/exposition.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;

TEST(ServerGaugesTest, ShowVersionAndBudgets) {
  prometheus::Registry registry;

  AddServerGauges({.version = "1.2.3",
                   .budget_bytes = 4096,
                   .device_budgets = {{"cuda:0", 512, 1}, {"cuda:2", 256, 2}}},
                  &registry);

  const std::string text = testing::Exposition(registry);
  EXPECT_THAT(text,
              HasSubstr("tensorkv_device_budget_bytes{device=\"cuda:0\"} 512"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_device_budget_bytes{device=\"cuda:2\"} 256"));
  EXPECT_THAT(text, HasSubstr("tensorkv_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_budget_bytes 4096\n"));
}

}  // namespace
}  // namespace tensorkv
