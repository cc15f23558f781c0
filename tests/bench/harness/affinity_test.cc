#include "bench/harness/affinity.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(AffinityTest, BindsTheThread) {
  const CpuList before = AllowedCpus();
  ASSERT_THAT(before, Not(IsEmpty()));

  ASSERT_OK(BindTo({before.front()}));
  EXPECT_THAT(AllowedCpus(), ElementsAre(before.front()));
  ASSERT_OK(BindTo(before));
  EXPECT_EQ(AllowedCpus(), before);
}

TEST(AffinityTest, NoCpuIsRefused) {
  EXPECT_THAT(BindTo({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv::bench
