// SetRule and SetHyperparameters: which rule governs a key, and what happens
// to the rule's state.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// The rule that Stat shows for a new key of that name.
std::string RuleOfNewKey(const Caller& store, const std::string& key) {
  EXPECT_OK(store.Init(key, Full({1}, 0)));
  return store.Stat(key)->rule().name();
}

TEST_P(RuleContractTest, SettingARuleLeavesValueAndVersion) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));

  ASSERT_OK(store_.SetRule("adam"));

  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(1)))));
}

TEST_P(RuleContractTest, PatternsAreGlobsOverWholeKeys) {
  ASSERT_OK(store_.SetRule("accumulate", "fc?.*"));

  EXPECT_EQ(RuleOfNewKey(store_, "fc1.w"), "accumulate");
  EXPECT_EQ(RuleOfNewKey(store_, "fc1."), "accumulate");
  EXPECT_EQ(RuleOfNewKey(store_, "fc1"), "assign");
  EXPECT_EQ(RuleOfNewKey(store_, "fc12.w"), "assign");
  EXPECT_EQ(RuleOfNewKey(store_, "xfc1.w"), "assign");
}

TEST_P(RuleContractTest, DescribeListsRulesInOrderOfPrecedence) {
  ASSERT_OK(store_.SetRule("sgd", "*.w"));
  ASSERT_OK(store_.SetRule("adam", "fc1.*"));
  EXPECT_EQ(RuleOfNewKey(store_, "fc3.b"), "assign");
  ASSERT_OK(store_.SetRule("accumulate"));

  EXPECT_EQ(RuleOfNewKey(store_, "fc1.w"), "adam");
  EXPECT_EQ(RuleOfNewKey(store_, "fc2.w"), "sgd");
  EXPECT_EQ(RuleOfNewKey(store_, "fc2.b"), "accumulate");
  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status, store_.Describe());

  std::vector<std::pair<std::string, std::string>> rules;
  for (const v1::RuleBinding& binding : status.rules()) {
    rules.emplace_back(binding.key_pattern(), binding.rule().name());
  }
  EXPECT_THAT(rules, ElementsAre(Pair("fc1.*", "adam"), Pair("*.w", "sgd"),
                                 Pair("", "accumulate")));
}

TEST_P(RuleContractTest, KeysOfAnUnsetPatternFallToTheRulesNextInOrder) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.SetRule("sgd", "fc*"));
  ASSERT_OK(store_.SetRule("adam", "*.w"));
  ASSERT_OK(store_.InitMany({{"fc.w", Full({1}, 0)}, {"x.w", Full({1}, 0)}}));

  ASSERT_OK(store_.UnsetRule("*.w"));

  EXPECT_EQ(store_.Stat("fc.w")->rule().name(), "sgd");
  EXPECT_EQ(store_.Stat("x.w")->rule().name(), "accumulate");
  EXPECT_EQ(store_.Stat("x.w")->state_bytes(), 0u);
  EXPECT_EQ(RuleOfNewKey(store_, "y.w"), "accumulate");
  EXPECT_EQ(store_.Describe()->rules().size(), 2u);
}

TEST_P(RuleContractTest, UnsetRuleWantsAPatternThatHasARule) {
  ASSERT_OK(store_.SetRule("sgd", "*.w"));
  ASSERT_OK(store_.UnsetRule("*.w"));

  const absl::Status status = store_.UnsetRule("*.w");

  EXPECT_THAT(status, StatusIs(StatusCode::kNotFound, HasSubstr("\"*.w\"")));
  EXPECT_EQ(ReasonOf(status), Reason::kRuleNotFound);
  EXPECT_THAT(store_.UnsetRule(""), StatusIs(StatusCode::kInvalidArgument));
}

TEST_P(RuleContractTest, UnsetRuleWhoseNextDoesNotTakeAKeyChangesNothing) {
  ASSERT_OK(store_.SetRule("accumulate", "n"));
  ASSERT_OK(store_.Init("n", Full({1}, 1, DType::kI32)));
  ASSERT_OK(store_.SetRule("accumulate(scale=2)", "n*"));
  ASSERT_OK(store_.UnsetRule("n"));
  ASSERT_OK(store_.SetRule("sgd"));

  EXPECT_THAT(store_.UnsetRule("n*"), StatusIs(StatusCode::kInvalidArgument));

  EXPECT_EQ(store_.Stat("n")->rule().name(), "accumulate");
}

TEST_P(RuleContractTest, SameRuleNameKeepsTheState) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Init("w", Full({2}, 0)));
  ASSERT_OK(store_.Push("w", Full({2}, 8)));  // m = -8, w = -8

  ASSERT_OK(store_.SetRule("sgd(learning_rate=2, momentum=0.25)"));
  ASSERT_OK(store_.Push("w", Full({2}, 1)));  // m = -2 - 2, w = -12

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(-12))));
}

TEST_P(RuleContractTest, AnotherRuleStartsWithoutState) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Init("w", Full({2}, 0)));
  ASSERT_OK(store_.Push("w", Full({2}, 8)));  // w = -8

  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Push("w", Full({2}, 1)));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(-9))));
}

TEST_P(RuleContractTest, ExpressionIsARule) {
  ASSERT_OK(store_.SetRule("expression: stored += input * 2"));
  ASSERT_OK(store_.Init("w", Full({3}, 1)));
  ASSERT_OK(store_.PushMany({{.key = "w", .tensor = Full({3}, 1)},
                             {.key = "w", .tensor = Full({3}, 2)}}));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
  EXPECT_EQ(store_.Stat("w")->rule().expression(), "stored += input * 2");
}

TEST_P(RuleContractTest, ExpressionKeepsTheStatesOfTheSameNames) {
  ASSERT_OK(store_.SetRule(
      "expression(beta=0.5, lr=1): state m; m = beta*m + grad; stored -= "
      "lr*m"));
  ASSERT_OK(store_.Init("w", Full({2}, 0)));
  ASSERT_OK(store_.Push("w", Full({2}, 8)));  // m = 8, w = -8

  ASSERT_OK_AND_ASSIGN(const RuleSpec rule,
                       store_.SetHyperparameters({{"lr", 2}}));
  EXPECT_EQ(rule.hyperparameters.at("beta"), 0.5);
  ASSERT_OK(store_.Push("w", Full({2}, 1)));  // m = 5, w = -18
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(-18))));

  ASSERT_OK(
      store_.SetRule("expression: state m; m = m + grad; stored = m * step"));
  ASSERT_OK(store_.Push("w", Full({2}, 1)));  // m = 6, the third update
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(18))));

  ASSERT_OK(store_.SetRule("expression: state n; n += grad; stored = n"));
  ASSERT_OK(store_.Push("w", Full({2}, 1)));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_P(RuleContractTest, BadExpressionChangesNothing) {
  ASSERT_OK(store_.InitMany(
      {{"w", Full({1}, 1)}, {"n.int", Full({1}, 1, DType::kI32)}}));

  EXPECT_THAT(
      store_.SetRule("expression(lr=1): stored -= lr *\n rate * grad", "w"),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("line 1, column 15: expected a number, a name")));
  EXPECT_THAT(store_.SetRule("expression(lr=1): stored -= (lr *\n rate)", "w"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("line 2, column 2: expected stored"),
                             HasSubstr("got \"rate\""))));
  EXPECT_THAT(store_.SetRule("expression: stored += grad", "n.*"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"n.int\""), HasSubstr("i32"))));
  EXPECT_THAT(store_.SetRule("sgd: stored += grad", "w"),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected no expression")));

  EXPECT_EQ(store_.Stat("w")->rule().name(), "assign");
}

TEST_P(RuleContractTest, LearningRateChangesWithoutLosingAdamsStepCount) {
  ASSERT_OK(store_.SetRule("adam(learning_rate=0.1, epsilon=0)"));
  ASSERT_OK(store_.Init("w", Full({5}, 0, DType::kF64)));
  ASSERT_OK(store_.Push("w", Full({5}, 1, DType::kF64)));  // w = -0.1

  ASSERT_OK(store_.SetHyperparameters({{"learning_rate", 0.2}}));
  ASSERT_OK(store_.Push("w", Full({5}, 0, DType::kF64)));

  // The second step, with t = 2, m = 0.09 and v = 0.000999.
  const double step = 0.2 * std::sqrt(1 - 0.999 * 0.999) / (1 - 0.9 * 0.9) *
                      0.09 / std::sqrt(0.000999);
  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_THAT(ElementsOf(value.tensor), Each(DoubleNear(-0.1 - step, 1e-12)));
}

TEST_P(RuleContractTest, MultipliersReachTheKeysOfTheirPatternNowAndLater) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, weight_decay=0.5)"));
  ASSERT_OK(store_.Init("a.bias", Full({1}, 8)));

  ASSERT_OK(store_.SetMultipliers({2, 0}, "*.bias"));
  ASSERT_OK(store_.InitMany({{"b.bias", Full({1}, 8)}, {"b.w", Full({1}, 8)}}));
  ASSERT_OK(store_.PushMany({{.key = "a.bias", .tensor = Full({1}, 1)},
                             {.key = "b.bias", .tensor = Full({1}, 1)},
                             {.key = "b.w", .tensor = Full({1}, 1)}}));

  EXPECT_THAT(store_.Pull("a.bias"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
  EXPECT_THAT(store_.Pull("b.bias"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
  EXPECT_THAT(store_.Pull("b.w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST_P(RuleContractTest, MultipliersAddedLastCountAndCanBeRemoved) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1)"));
  ASSERT_OK(store_.Init("fc.bias", Full({1}, 0)));
  ASSERT_OK(store_.SetMultipliers({3, 1}, ""));
  ASSERT_OK(store_.SetMultipliers({5, 1}, "fc.*"));
  ASSERT_OK(store_.SetMultipliers({7, 1}, "*.bias"));
  EXPECT_EQ(store_.Stat("fc.bias")->learning_rate(), 7);
  EXPECT_EQ(store_.Describe()->multipliers().size(), 3u);

  ASSERT_OK(store_.UnsetMultipliers("*.bias"));
  EXPECT_EQ(store_.Stat("fc.bias")->learning_rate(), 5);
  ASSERT_OK(store_.UnsetMultipliers("fc.*"));
  EXPECT_EQ(store_.Stat("fc.bias")->learning_rate(), 3);
  ASSERT_OK(store_.UnsetMultipliers(""));

  EXPECT_EQ(store_.Stat("fc.bias")->learning_rate(), 1);
  EXPECT_EQ(store_.Describe()->multipliers().size(), 0u);
  const absl::Status status = store_.UnsetMultipliers("fc.*");
  EXPECT_THAT(status, StatusIs(StatusCode::kNotFound, HasSubstr("\"fc.*\"")));
  EXPECT_EQ(ReasonOf(status), Reason::kRuleNotFound);
}

TEST_P(RuleContractTest, BadMultipliersChangeNothing) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1)"));
  ASSERT_OK(store_.Init("w", Full({1}, 0)));

  for (const double bad : {-1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_THAT(store_.SetMultipliers({bad, 1}, ""),
                StatusIs(StatusCode::kInvalidArgument));
    EXPECT_THAT(store_.SetMultipliers({1, bad}, ""),
                StatusIs(StatusCode::kInvalidArgument));
  }

  EXPECT_EQ(FromProto(store_.Stat("w")->multipliers()), Multipliers());
}

TEST_P(RuleContractTest, ScheduleFollowsTheUpdatesOfEachKey) {
  ASSERT_OK(store_.SetRule(
      "sgd(learning_rate=4, schedule=multi_factor(factor=0.5, steps=[1, 2]))"));
  ASSERT_OK(store_.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));

  for (int i = 0; i < 3; ++i) ASSERT_OK(store_.Push("a", Full({1}, 1)));
  ASSERT_OK(store_.Push("b", Full({1}, 1)));

  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(-7))));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(-4))));
  ASSERT_OK_AND_ASSIGN(const KeyStatus status, store_.Stat("b"));
  EXPECT_EQ(status.update_count(), 1u);
  EXPECT_EQ(status.learning_rate(), 2);
  EXPECT_THAT(status.rule().schedule().steps(), ElementsAre(1, 2));
}

TEST_P(RuleContractTest, BadScheduleChangesNothing) {
  EXPECT_THAT(store_.SetRule("sgd(schedule=cosine(max_updates=0))"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("max_updates")));
  EXPECT_THAT(store_.SetRule("accumulate(schedule=cosine)"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("schedule")));

  EXPECT_EQ(RuleOfNewKey(store_, "w"), "assign");
}

// The noise is that of the key, not of when and where it is drawn.
TEST_P(RuleContractTest, NoiseIsTheSameForTheSameKeyAndUpdate) {
  ASSERT_OK(store_.SetRule("sgld(learning_rate=0.25)"));
  ASSERT_OK(store_.InitMany({{"a", Full({64}, 0)}, {"b", Full({64}, 0)}}));
  ASSERT_OK(store_.Push("a", Full({64}, 0)));
  ASSERT_OK(store_.Push("b", Full({64}, 0)));
  ASSERT_OK_AND_ASSIGN(const Value first, store_.Pull("a"));
  ASSERT_OK_AND_ASSIGN(const Value other, store_.Pull("b"));
  ASSERT_OK(store_.Delete({"a"}));
  ASSERT_OK(store_.Init("a", Full({64}, 0)));

  ASSERT_OK(store_.Push("a", Full({64}, 0)));

  ASSERT_OK_AND_ASSIGN(const Value again, store_.Pull("a"));
  EXPECT_EQ(ElementsOf(again.tensor), ElementsOf(first.tensor));
  EXPECT_NE(ElementsOf(other.tensor), ElementsOf(first.tensor));
}

TEST_P(RuleContractTest, SetHyperparametersAnswersWithTheWholeRule) {
  ASSERT_OK(store_.SetRule("sgd(momentum=0.9)", "*.w"));

  ASSERT_OK_AND_ASSIGN(
      const RuleSpec rule,
      store_.SetHyperparameters({{"learning_rate", 0.25}}, "*.w"));

  EXPECT_EQ(rule.name, "sgd");
  EXPECT_EQ(rule.hyperparameters.at("learning_rate"), 0.25);
  EXPECT_EQ(rule.hyperparameters.at("momentum"), 0.9);
}

TEST_P(RuleContractTest, SetHyperparametersReachesOnlyItsPattern) {
  ASSERT_OK(store_.SetRule("accumulate", "*.w"));
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.InitMany({{"fc.w", Full({1}, 0)}, {"fc.b", Full({1}, 0)}}));

  ASSERT_OK(store_.SetHyperparameters({{"scale", 3}}, "*.w"));
  ASSERT_OK(store_.PushMany({{.key = "fc.w", .tensor = Full({1}, 1)},
                             {.key = "fc.b", .tensor = Full({1}, 1)}}));

  EXPECT_THAT(store_.Pull("fc.w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
  EXPECT_THAT(store_.Pull("fc.b"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_P(RuleContractTest, SetHyperparametersWantsAPatternThatHasARule) {
  ASSERT_OK(store_.SetRule("sgd", "*.w"));

  EXPECT_THAT(store_.SetHyperparameters({{"momentum", 0.5}}, "fc.*"),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"fc.*\"")));
  EXPECT_THAT(store_.SetHyperparameters({{"momentum", 0.5}}, "fc.w"),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"fc.w\"")));
}

TEST_P(RuleContractTest, BadHyperparametersChangeNothing) {
  ASSERT_OK(store_.SetRule("accumulate(scale=2)"));
  ASSERT_OK(store_.Init("w", Full({1}, 0)));

  EXPECT_THAT(store_.SetHyperparameters({{"scale", 5}, {"momentum", 0.5}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("momentum")));
  EXPECT_THAT(store_.SetHyperparameters({{"scale", NAN}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("scale")));

  ASSERT_OK(store_.Push("w", Full({1}, 1)));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_P(RuleContractTest, RuleThatDoesNotTakeAMatchingKeyChangesNothing) {
  ASSERT_OK(store_.InitMany(
      {{"n.float", Full({1}, 1)}, {"n.int", Full({1}, 1, DType::kI32)}}));

  EXPECT_THAT(store_.SetRule("adam", "n.*"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("adam"), HasSubstr("\"n.int\""),
                             HasSubstr("i32"))));

  EXPECT_EQ(store_.Stat("n.float")->rule().name(), "assign");
  EXPECT_EQ(store_.Describe()->rules().size(), 1);
}

TEST_P(RuleContractTest, KeyWhoseDTypeTheRuleDoesNotTakeIsNotCreated) {
  ASSERT_OK(store_.SetRule("sgd", "*.w"));

  EXPECT_THAT(store_.InitMany({{"fc.b", Full({1}, 0)},
                               {"fc.w", Full({1}, 1, DType::kI64)}}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("sgd"), HasSubstr("\"fc.w\""),
                             HasSubstr("i64"))));
  EXPECT_THAT(store_.Pull("fc.b"), StatusIs(StatusCode::kNotFound));
}

TEST_P(RuleContractTest, BadScaleForAnIntegerKeyChangesNothing) {
  ASSERT_OK(store_.SetRule("accumulate(scale=2)"));
  ASSERT_OK(store_.Init("n", Full({1}, 1, DType::kI32)));

  EXPECT_THAT(store_.SetHyperparameters({{"scale", 0.5}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("0.5")));

  ASSERT_OK(store_.Push("n", Full({1}, 1, DType::kI32)));
  EXPECT_THAT(store_.Pull("n"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

}  // namespace
}  // namespace tensorkv::testing
