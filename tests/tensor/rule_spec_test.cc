#include "tensor/rule_spec.h"

#include <limits>
#include <string>

#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::IsOkAndHolds;
using testing::StatusIs;

RuleSpec Rule(std::string name, Hyperparameters hyperparameters = {},
              bool keep_master = true) {
  return {.name = std::move(name),
          .hyperparameters = std::move(hyperparameters),
          .keep_master = keep_master};
}

TEST(RuleSpecTest, ToStringNamesTheFlag) {
  EXPECT_EQ(Rule("sgd", {}, false).ToString(), "sgd(keep_master=0)");
  EXPECT_EQ(Rule("sgd", {{"momentum", 0.5}}, false).ToString(),
            "sgd(momentum=0.5, keep_master=0)");
}

TEST(RuleSpecTest, ExpressionFollowsAColon) {
  RuleSpec rule = Rule("expression", {{"lr", 0.5}});
  rule.expression = "state m; m += grad\nstored -= lr * (m)";
  EXPECT_EQ(rule.ToString(),
            "expression(lr=0.5): state m; m += grad\nstored -= lr * (m)");
  EXPECT_THAT(ParseRuleSpec(rule.ToString()), IsOkAndHolds(rule));
  EXPECT_THAT(ParseRuleSpec(" expression :stored = grad "),
              IsOkAndHolds(RuleSpec{.name = "expression",
                                    .expression = "stored = grad"}));
}

TEST(RuleSpecTest, DiffersByEveryField) {
  EXPECT_NE(Rule("sgd"), Rule("adam"));
  EXPECT_NE(Rule("sgd"), Rule("sgd", {{"momentum", 0}}));
  EXPECT_NE(Rule("sgd"), Rule("sgd", {}, false));
}

TEST(ParseRuleSpecTest, ReadsNameAndHyperparameters) {
  EXPECT_THAT(ParseRuleSpec("assign"), IsOkAndHolds(Rule("assign")));
  EXPECT_THAT(ParseRuleSpec("assign()"), IsOkAndHolds(Rule("assign")));
  EXPECT_THAT(ParseRuleSpec("accumulate(scale=2)"),
              IsOkAndHolds(Rule("accumulate", {{"scale", 2}})));
  EXPECT_THAT(ParseRuleSpec("sgd(learning_rate=1e-3,clip_gradient=-1)"),
              IsOkAndHolds(Rule(
                  "sgd", {{"learning_rate", 1e-3}, {"clip_gradient", -1}})));
}

TEST(ParseRuleSpecTest, SpacesDoNotCount) {
  EXPECT_THAT(
      ParseRuleSpec("  sgd ( momentum = .5 ,\tweight_decay= 1 ) "),
      IsOkAndHolds(Rule("sgd", {{"momentum", 0.5}, {"weight_decay", 1}})));
}

TEST(ParseRuleSpecTest, ReadsTheFlag) {
  EXPECT_THAT(ParseRuleSpec("adam(keep_master=0)"),
              IsOkAndHolds(Rule("adam", {}, false)));
  EXPECT_THAT(ParseRuleSpec("adam(keep_master=1)"), IsOkAndHolds(Rule("adam")));
}

TEST(ParseRuleSpecTest, ReadsBackEveryNumberExactly) {
  const RuleSpec rule = Rule("adam",
                             {{"a", 0.1},
                              {"b", 1.0 / 3},
                              {"c", std::numeric_limits<double>::denorm_min()},
                              {"d", std::numeric_limits<double>::max()},
                              {"e", -std::numeric_limits<double>::infinity()},
                              {"f", 16777217.0}},
                             false);

  EXPECT_THAT(ParseRuleSpec(rule.ToString()), IsOkAndHolds(rule));
}

struct BadRule {
  std::string text;
  std::string message;
};

class BadRuleTest : public ::testing::TestWithParam<BadRule> {};

TEST_P(BadRuleTest, IsInvalidAndNamesThePosition) {
  EXPECT_THAT(ParseRuleSpec(GetParam().text),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRuleTest,
    ::testing::Values(
        BadRule{"", "expected a name at character 1, got the end"},
        BadRule{"  ", "expected a name at character 3, got the end"},
        BadRule{"(a=1)", "expected a name at character 1, got \"(a=1)\""},
        BadRule{"sgd x", "expected the end at character 5, got \"x\""},
        BadRule{"sgd)", "expected the end at character 4, got \")\""},
        BadRule{"sgd(", "expected a name at character 5, got the end"},
        BadRule{"sgd(lr", "expected '=' at character 7, got the end"},
        BadRule{"sgd(lr 1)", "expected '=' at character 8, got \"1)\""},
        BadRule{"sgd(lr=)", "expected a number at character 8, got \")\""},
        BadRule{"sgd(lr=x)", "expected a number at character 8, got \"x)\""},
        BadRule{"sgd(lr=1x)", "expected a number at character 8, got \"1x)\""},
        BadRule{"sgd(lr=1", "expected ',' or ')' at character 9, got the end"},
        BadRule{"sgd(lr=1 2)", "expected ',' or ')' at character 10"},
        BadRule{"sgd(lr=1,)", "expected a name at character 10, got \")\""},
        BadRule{"sgd(,lr=1)", "expected a name at character 5"},
        BadRule{"sgd(lr=1)(", "expected the end at character 10"},
        BadRule{"sgd(lr=1, lr=2)",
                "expected a name not yet given at character 11, got \"lr=2)\""},
        BadRule{"sgd(keep_master=1, keep_master=1)",
                "expected a name not yet given at character 20"},
        BadRule{"sgd(keep_master=2)", "expected 0 or 1 at character 17"},
        BadRule{"sgd(keep_master=nan)", "expected 0 or 1 at character 17"},
        BadRule{"sgd\x01", "expected the end at character 4, got \"\\x01\""}));

TEST(ParseRuleSpecTest, LongTextGivesAShortMessage) {
  const auto rule = ParseRuleSpec("sgd " + std::string(100'000, 'x'));

  EXPECT_LT(rule.status().message().size(), 200);
}

}  // namespace
}  // namespace tensorkv
