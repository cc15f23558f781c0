// Init: creating keys, and what on_existing makes of those that exist.

#include <string>
#include <vector>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST_P(InitContractTest, CreatedKeyHasItsValueAndVersionOne) {
  const auto version = store_.Init("w", Vector({1.5, -2, 0}));

  EXPECT_THAT(version, IsOkAndHolds(1));
  EXPECT_THAT(
      store_.Pull("w"),
      IsOkAndHolds(AllOf(HasVersion(1), HasTensor(HasElements({1.5, -2, 0})))));
}

TEST_P(InitContractTest, CreatesManyKeysInOneCall) {
  ASSERT_OK_AND_ASSIGN(
      const InitReply reply,
      store_.InitMany({{"a", Full({1}, 1)}, {"b", Full({2}, 2)}}));

  EXPECT_THAT(reply.versions, ElementsAre(1, 1));
  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_P(InitContractTest, SecondInitOfAKeyAlreadyExists) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));

  const auto again = store_.Init("w", Full({2}, 9));

  EXPECT_THAT(again, StatusIs(StatusCode::kAlreadyExists, HasSubstr("\"w\"")));
  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(1)))));
}

TEST_P(InitContractTest, OneExistingKeyFailsTheWholeCall) {
  ASSERT_OK(store_.Init("b", Full({2}, 1)));

  const auto init = store_.InitMany(
      {{"a", Full({2}, 5)}, {"b", Full({2}, 5)}, {"c", Full({2}, 5)}});

  EXPECT_THAT(init, StatusIs(StatusCode::kAlreadyExists, HasSubstr("\"b\"")));
  EXPECT_THAT(store_.Pull("a"), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.Pull("c"), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_P(InitContractTest, KeepLeavesTheStoredValue) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));
  ASSERT_OK(store_.Push("w", Full({2}, 7)));

  const auto kept = store_.Init("w", Full({2}, 9), OnExisting::kKeep);

  EXPECT_THAT(kept, IsOkAndHolds(2));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

TEST_P(InitContractTest, KeepCreatesWhatIsMissing) {
  ASSERT_OK(store_.Init("a", Full({2}, 1)));

  ASSERT_OK(store_.InitMany({{"a", Full({2}, 9)}, {"b", Full({2}, 9)}},
                            OnExisting::kKeep));

  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(9))));
}

TEST_P(InitContractTest, KeepOfAnotherShapeIsFailedPrecondition) {
  ASSERT_OK(store_.Init("w", Full({2, 3}, 1)));

  const auto kept = store_.Init("w", Full({3, 2}, 1), OnExisting::kKeep);

  EXPECT_THAT(kept, StatusIs(StatusCode::kFailedPrecondition,
                             AllOf(HasSubstr("\"w\""), HasSubstr("f32[2,3]"),
                                   HasSubstr("f32[3,2]"))));
}

TEST_P(InitContractTest,
       KeepOfAnotherDTypeIsFailedPreconditionAndAllOrNothing) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));

  const auto kept =
      store_.InitMany({{"new", Full({2}, 1)}, {"w", Full({2}, 1, DType::kF64)}},
                      OnExisting::kKeep);

  EXPECT_THAT(kept, StatusIs(StatusCode::kFailedPrecondition,
                             AllOf(HasSubstr("\"w\""), HasSubstr("f32[2]"),
                                   HasSubstr("f64[2]"))));
  EXPECT_THAT(store_.Pull("new"), StatusIs(StatusCode::kNotFound));
}

TEST_P(InitContractTest, ReplaceSetsTheValueAndVersionsGoOn) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));
  ASSERT_OK(store_.Push("w", Full({2}, 2)));

  const auto version =
      store_.Init("w", Full({4, 1}, 9, DType::kF64), OnExisting::kReplace);

  EXPECT_THAT(version, IsOkAndHolds(3));
  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.version, 3);
  EXPECT_EQ(value.tensor.Description(), "f64[4,1]");
  EXPECT_THAT(value.tensor, IsFilledWith(9));
}

TEST_P(InitContractTest, ReplaceStartsRuleStateAnew) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Init("w", Full({2}, 0)));
  ASSERT_OK(store_.Push("w", Full({2}, 8)));

  ASSERT_OK(store_.Init("w", Full({2}, 10), OnExisting::kReplace));
  ASSERT_OK(store_.Push("w", Full({2}, 1)));

  // With the old momentum, -8, it would be 10 - 4 - 1.
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(9))));
}

TEST_P(InitContractTest, KeepByManyGivesEveryoneTheFirstWritersValue) {
  constexpr int kWriters = 8;
  std::vector<double> seen(kWriters);

  RunConcurrently(kWriters, [&](int writer) {
    EXPECT_OK(store_.Init("w", Full({64}, writer), OnExisting::kKeep));
    ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
    EXPECT_TRUE(IsUniform(value.tensor));
    seen[writer] = ElementsOf(value.tensor).at(0);
  });

  EXPECT_EQ(seen, std::vector<double>(kWriters, seen[0]));
}

TEST_P(InitContractTest, ConcurrentInitsOfOneKeyHaveOneWinner) {
  constexpr int kWriters = 8;
  std::vector<int> won(kWriters);

  RunConcurrently(kWriters, [&](int writer) {
    const auto init = store_.Init("w", Full({64}, writer));
    won[writer] = init.ok();
    EXPECT_THAT(init.status(),
                AnyOf(IsOk(), StatusIs(StatusCode::kAlreadyExists)));
  });

  EXPECT_THAT(won, UnorderedElementsAre(1, 0, 0, 0, 0, 0, 0, 0));
}

TEST_P(InitContractTest, KeysMayBeAnyTextUpTo1024Bytes) {
  const std::string keys[] = {"3", "layer/0.weight", "größe \u2211 x", " ",
                              std::string(1024, 'k')};

  for (const std::string& key : keys) {
    EXPECT_OK(store_.Init(key, Full({1}, 1)));
    EXPECT_THAT(store_.Pull(key), IsOkAndHolds(HasVersion(1)));
  }
}

}  // namespace
}  // namespace tensorkv::testing
