#include "service/metrics/server_gauges.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/metrics/exposition.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;

TEST(ServerGaugesTest, ShowVersionAndBudget) {
  prometheus::Registry registry;

  AddServerGauges("1.2.3", 4096, &registry);

  const std::string text = testing::Exposition(registry);
  EXPECT_THAT(text, HasSubstr("tensorkv_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_budget_bytes 4096\n"));
}

}  // namespace
}  // namespace tensorkv
