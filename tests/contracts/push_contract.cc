// Push in async mode: each push is applied alone, at once, by the key's rule.

#include <utility>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

auto ProducedVersion(Version version) {
  return Field("version", &PushResult::version, version);
}

TEST_P(PushContractTest, AssignsByDefault) {
  ASSERT_OK(store_.Init("w", Full({2, 3}, 1)));

  const auto push = store_.Push("w", Full({2, 3}, 8));

  EXPECT_THAT(push, IsOkAndHolds(ProducedVersion(2)));
  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(8)))));
}

TEST_P(PushContractTest, EntriesOfOneKeyAreSummedAndCountOnce) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({3}, 100)));

  ASSERT_OK_AND_ASSIGN(const PushReply reply,
                       store_.PushMany({{.key = "w", .tensor = Full({3}, 1)},
                                        {.key = "w", .tensor = Full({3}, 2)},
                                        {.key = "w", .tensor = Full({3}, 3)}}));

  EXPECT_THAT(reply.results, ElementsAre(ProducedVersion(2), ProducedVersion(2),
                                         ProducedVersion(2)));
  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(106)))));
}

TEST_P(PushContractTest, SumsRepeatedEntriesBetweenOtherKeys) {
  ASSERT_OK(store_.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));

  ASSERT_OK_AND_ASSIGN(const PushReply reply,
                       store_.PushMany({{.key = "a", .tensor = Full({1}, 1)},
                                        {.key = "b", .tensor = Full({1}, 10)},
                                        {.key = "a", .tensor = Full({1}, 2)}}));

  EXPECT_EQ(reply.results.size(), 3);
  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(10))));
}

TEST_P(PushContractTest, AnswersInTheOrderOfTheRequest) {
  ASSERT_OK(store_.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));
  ASSERT_OK(store_.Push("b", Full({1}, 0)));

  ASSERT_OK_AND_ASSIGN(const PushReply reply,
                       store_.PushMany({{.key = "b", .tensor = Full({1}, 1)},
                                        {.key = "a", .tensor = Full({1}, 1)}}));

  EXPECT_THAT(reply.results,
              ElementsAre(ProducedVersion(3), ProducedVersion(2)));
}

TEST_P(PushContractTest, OneBadEntryBetweenGoodOnesAndNothingChanges) {
  const std::pair<PushEntry, StatusCode> kBad[] = {
      {{.key = "unknown", .tensor = Full({2}, 5)}, StatusCode::kNotFound},
      {{.key = "b", .tensor = Full({3}, 5)}, StatusCode::kInvalidArgument},
      {{.key = "b", .tensor = Full({2}, 5, DType::kI32)},
       StatusCode::kInvalidArgument},
      {{.key = "", .tensor = Full({2}, 5)}, StatusCode::kInvalidArgument}};
  ASSERT_OK(store_.InitMany({{"a", Full({2}, 1)}, {"b", Full({2}, 1)}}));
  for (const auto& [bad, code] : kBad) {
    EXPECT_THAT(store_.PushMany({{.key = "a", .tensor = Full({2}, 5)},
                                 bad,
                                 {.key = "b", .tensor = Full({2}, 5)}}),
                StatusIs(code));
  }

  ASSERT_OK_AND_ASSIGN(const PullReply reply, store_.PullMany({{"a"}, {"b"}}));
  const auto is_unchanged = AllOf(HasVersion(1), HasTensor(IsFilledWith(1)));
  EXPECT_THAT(reply.values, ElementsAre(is_unchanged, is_unchanged));
}

TEST_P(PushContractTest, PushPullReturnsTheUpdatedValues) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.InitMany({{"a", Full({2}, 1)}, {"b", Full({3}, 2)}}));

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      store_.PushPullMany({{.key = "b", .tensor = Full({3}, 10)},
                           {.key = "a", .tensor = Full({2}, 20)}}));

  EXPECT_THAT(reply.values,
              ElementsAre(AllOf(HasVersion(2), HasTensor(IsFilledWith(12))),
                          AllOf(HasVersion(2), HasTensor(IsFilledWith(21)))));
}

TEST_P(PushContractTest, PushPullAnswersEveryEntryOfARepeatedKey) {
  ASSERT_OK(store_.Init("w", Full({2}, 0)));

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      store_.PushPullMany({{.key = "w", .tensor = Full({2}, 1)},
                           {.key = "w", .tensor = Full({2}, 2)}}));

  const auto is_sum = AllOf(HasVersion(2), HasTensor(IsFilledWith(3)));
  EXPECT_THAT(reply.values, ElementsAre(is_sum, is_sum));
}

TEST_P(PushContractTest, PushPullOfAnUnknownKeyChangesNothing) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));

  const auto values =
      store_.PushPullMany({{.key = "w", .tensor = Full({2}, 5)},
                           {.key = "unknown", .tensor = Full({2}, 5)}});

  EXPECT_THAT(values,
              StatusIs(StatusCode::kNotFound, HasSubstr("\"unknown\"")));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(PushContractTest, SkipChangesNothing) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));

  EXPECT_OK(store_.Skip("w", 1));

  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(1)))));
}

TEST_P(PushContractTest, KeepsTheCallersTensorAsItWas) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({4}, 1)));
  const Tensor contribution = Full({4}, 2);

  ASSERT_OK(store_.Push("w", contribution));
  ASSERT_OK(store_.Push("w", contribution));

  EXPECT_THAT(contribution, IsFilledWith(2));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
}

TEST_P(PushContractTest, CountsUpdates) {
  ASSERT_OK(store_.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));
  ASSERT_OK(store_.Push("a", Full({1}, 1)));
  ASSERT_OK(store_.PushMany({{.key = "a", .tensor = Full({1}, 1)},
                             {.key = "b", .tensor = Full({1}, 1)}}));

  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status, store_.Describe());

  EXPECT_EQ(status.updates_applied(), 3);
}

}  // namespace
}  // namespace tensorkv::testing
