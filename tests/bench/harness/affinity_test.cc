#include "bench/harness/affinity.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(AffinityTest, ListsAreNumbersAndCommas) {
  EXPECT_THAT(ParseCpuList("0"), IsOkAndHolds(ElementsAre(0)));
  EXPECT_THAT(ParseCpuList("3,0,12"), IsOkAndHolds(ElementsAre(3, 0, 12)));
}

TEST(AffinityTest, OtherTextsAreInvalid) {
  for (const char* text : {"", "a", "1,", "-1", "0-3", "99999"}) {
    EXPECT_THAT(ParseCpuList(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(AffinityTest, AScopeBindsTheThreadAndLetsItGo) {
  const CpuList before = AllowedCpus();
  ASSERT_THAT(before, Not(IsEmpty()));
  {
    const ScopedAffinity first({before.front()});
    EXPECT_THAT(AllowedCpus(), ElementsAre(before.front()));
  }
  EXPECT_EQ(AllowedCpus(), before);
}

TEST(AffinityTest, NoCpuIsRefused) {
  EXPECT_THAT(BindTo({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv::bench
