// The tutorial of a key-value store for training, step by step.

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::testing::Each;

std::vector<PushEntry> Repeated(const std::vector<std::string>& keys,
                                double value, int times) {
  std::vector<PushEntry> entries;
  for (const std::string& key : keys) {
    entries.insert(entries.end(), times,
                   {.key = key, .tensor = Full({2, 3}, value)});
  }
  return entries;
}

auto Holds(double value) { return HasTensor(IsFilledWith(value)); }

TEST_P(TutorialContractTest, InitPullPushRule) {
  ASSERT_OK(store_.Init("3", Full({2, 3}, 2)));
  EXPECT_THAT(store_.Pull("3"), IsOkAndHolds(Holds(2)));

  ASSERT_OK(store_.Push("3", Full({2, 3}, 8)));
  EXPECT_THAT(store_.Pull("3"), IsOkAndHolds(Holds(8)));

  ASSERT_OK(store_.PushMany(Repeated({"3"}, 1, 4)));
  EXPECT_THAT(store_.Pull("3"), IsOkAndHolds(Holds(4)));

  ASSERT_OK(store_.SetRule("accumulate(scale=2)"));
  EXPECT_THAT(store_.Pull("3"), IsOkAndHolds(Holds(4)));

  ASSERT_OK(store_.Push("3", Full({2, 3}, 1)));
  EXPECT_THAT(store_.Pull("3"), IsOkAndHolds(Holds(6)));
}

TEST_P(TutorialContractTest, ListsOfKeys) {
  ASSERT_OK(store_.SetRule("accumulate(scale=2)"));
  ASSERT_OK(store_.InitMany({{"5", Full({2, 3}, 1)},
                             {"7", Full({2, 3}, 1)},
                             {"9", Full({2, 3}, 1)}}));

  ASSERT_OK(store_.PushMany(Repeated({"5", "7", "9"}, 1, 1)));
  EXPECT_THAT(store_.PullMany({{"5"}, {"7"}, {"9"}})->values, Each(Holds(3)));

  ASSERT_OK(store_.PushMany(Repeated({"5", "7", "9"}, 1, 4)));
  EXPECT_THAT(store_.PullMany({{"5"}, {"7"}, {"9"}})->values, Each(Holds(11)));
}

}  // namespace
}  // namespace tensorkv::testing
