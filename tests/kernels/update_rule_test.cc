#include "kernels/update_rule.h"

#include <cmath>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

UpdateRule MakeRule(const RuleSpec& spec) {
  return UpdateRule::Create(spec).value();
}

absl::Status ErrorOf(const std::string& rule, const std::string& name,
                     double value) {
  return UpdateRule::Create({rule, {{name, value}}}).status();
}

TEST(UpdateRuleTest, DefaultsAreThoseOfTheContract) {
  EXPECT_EQ(MakeRule({"accumulate"}).spec().ToString(), "accumulate(scale=1)");
  EXPECT_EQ(MakeRule({"sgd"}).spec().hyperparameters,
            (Hyperparameters{{"learning_rate", 0.1},
                             {"momentum", 0},
                             {"weight_decay", 0},
                             {"rescale_grad", 1},
                             {"clip_gradient", -1}}));
  const Hyperparameters adam = {{"learning_rate", 0.001}, {"beta1", 0.9},
                                {"beta2", 0.999},         {"epsilon", 1e-8},
                                {"weight_decay", 0},      {"rescale_grad", 1},
                                {"clip_gradient", -1}};
  EXPECT_EQ(MakeRule({"adam"}).spec().hyperparameters, adam);
  Hyperparameters adamw = adam;
  adamw["correct_bias"] = 1;
  adamw["mxnet_form"] = 0;
  EXPECT_EQ(MakeRule({"adamw"}).spec().hyperparameters, adamw);
}

TEST(UpdateRuleTest, WorkGrowsWithWhatIsComputed) {
  EXPECT_EQ(UpdateRule().work_factor(), 1u);
  EXPECT_EQ(MakeRule({"sgd"}).work_factor(), 1u);
  EXPECT_GT(MakeRule({"sgld"}).work_factor(), 1u);
  const auto expression = [](const std::string& text) {
    return MakeRule({.name = "expression", .expression = text}).work_factor();
  };
  EXPECT_GE(expression("stored = grad"), 1u);
  EXPECT_GT(expression("stored -= exp(grad) * grad"),
            expression("stored -= grad"));
}

TEST(UpdateRuleTest, ParametersAreTimesTheMultipliers) {
  const UpdateRule rule = MakeRule({"sgd",
                                    {{"clip_gradient", 5},
                                     {"learning_rate", 0.5},
                                     {"weight_decay", 0.25},
                                     {"momentum", 0.75}}});

  const RuleParameters p = rule.ParametersAt(3, {0.5, 2}, /*seed=*/7);
  EXPECT_EQ(p.learning_rate, 0.25);
  EXPECT_EQ(p.weight_decay, 0.5);
  EXPECT_EQ(p.rescale_grad, 1);
  EXPECT_EQ(p.clip_gradient, 5);
  EXPECT_EQ(p.own[0], 0.75);
  EXPECT_EQ(p.update_count, 3);
  EXPECT_EQ(p.seed, 7);
}

TEST(UpdateRuleTest, WithChangesOnlyWhatItIsGiven) {
  const UpdateRule rule = MakeRule({"sgd",
                                    {{"learning_rate", 1}, {"weight_decay", 2}},
                                    /*keep_master=*/false});

  ASSERT_OK_AND_ASSIGN(const UpdateRule changed,
                       rule.With({{"learning_rate", 3}}));

  EXPECT_EQ(changed.spec().hyperparameters.at("learning_rate"), 3);
  EXPECT_EQ(changed.spec().hyperparameters.at("weight_decay"), 2);
  EXPECT_FALSE(changed.spec().keep_master);
  EXPECT_EQ(rule.spec().hyperparameters.at("learning_rate"), 1);
  EXPECT_THAT(rule.With({{"momentum", 1}}),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(UpdateRuleTest, UnknownRuleListsTheKnown) {
  EXPECT_THAT(
      UpdateRule::Create({"adan"}),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("expected one of assign, accumulate, "),
                     HasSubstr("adamw, "), HasSubstr(", got \"adan\""))));
}

TEST(UpdateRuleTest, UnknownNamesAreShownShortAndPrintable) {
  EXPECT_THAT(UpdateRule::Create({std::string(1000, 'x') + "\n"}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("\"" + std::string(64, 'x') + "...\"")));
  EXPECT_THAT(UpdateRule::Create({"\n"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"\\n\"")));
}

TEST(UpdateRuleTest, UnknownHyperparameterListsThoseOfTheRule) {
  EXPECT_THAT(ErrorOf("sgd", "beta1", 0),
              StatusIs(StatusCode::kInvalidArgument,
                       "sgd: expected hyperparameters out of learning_rate, "
                       "weight_decay, rescale_grad, clip_gradient, momentum, "
                       "got \"beta1\""));
  EXPECT_THAT(ErrorOf("assign", "scale", 1),
              StatusIs(StatusCode::kInvalidArgument,
                       "assign: expected no hyperparameters, got \"scale\""));
}

TEST(UpdateRuleTest, ValuesOutOfRangeAreNamed) {
  EXPECT_THAT(ErrorOf("adam", "beta1", NAN),
              StatusIs(StatusCode::kInvalidArgument,
                       "adam: beta1 must be in [0, 1), got nan"));
  EXPECT_THAT(ErrorOf("adam", "beta2", 1),
              StatusIs(StatusCode::kInvalidArgument,
                       "adam: beta2 must be in [0, 1), got 1"));
  EXPECT_THAT(ErrorOf("sgd", "momentum", -0.5),
              StatusIs(StatusCode::kInvalidArgument,
                       "sgd: momentum must be in [0, 1), got -0.5"));
  EXPECT_THAT(ErrorOf("adamw", "epsilon", -1),
              StatusIs(StatusCode::kInvalidArgument,
                       "adamw: epsilon must be finite and >= 0, got -1"));
  EXPECT_THAT(ErrorOf("adamw", "correct_bias", 2),
              StatusIs(StatusCode::kInvalidArgument,
                       "adamw: correct_bias must be 0 or 1, got 2"));
  EXPECT_THAT(ErrorOf("sgd", "clip_gradient", INFINITY),
              StatusIs(StatusCode::kInvalidArgument,
                       "sgd: clip_gradient must be finite, got inf"));
}

TEST(UpdateRuleTest, EveryRuleHasDistinctStatesAndTakesItsDefaults) {
  for (const char* name :
       {"assign",   "accumulate", "average",      "test",    "sgd",
        "nag",      "diloco",     "adam",         "amsgrad", "adamw",
        "adamax",   "nadam",      "adabelief",    "adagrad", "rmsprop",
        "adadelta", "ftrl",       "ftml",         "signum",  "signsgd",
        "sgld",     "dcasgd",     "lion",         "lars",    "lamb",
        "lans",     "adafactor",  "groupadagrad", "radam",   "yogi"}) {
    const UpdateRule rule = MakeRule({name});
    EXPECT_OK(UpdateRule::Create(rule.spec())) << name;
    std::set<std::string> states;
    for (const StateSpec& state : rule.states()) {
      states.emplace(state.name);
    }
    EXPECT_EQ(static_cast<int>(states.size()), rule.num_states()) << name;
  }
}

TEST(UpdateRuleTest, CenteredIsAVariantWithMoreStates) {
  EXPECT_EQ(MakeRule({"rmsprop"}).kind(), RuleKind::kRmsProp);
  EXPECT_EQ(MakeRule({"rmsprop"}).num_states(), 1);
  const UpdateRule centered = MakeRule({"rmsprop", {{"centered", 1}}});
  EXPECT_EQ(centered.kind(), RuleKind::kRmsPropCentered);
  EXPECT_EQ(centered.num_states(), 3);
}

TEST(UpdateRuleTest, ScheduleChangesTheLearningRate) {
  ASSERT_OK_AND_ASSIGN(
      const RuleSpec spec,
      ParseRuleSpec("sgd(learning_rate=3, schedule=constant("
                    "warmup_updates=4, warmup_learning_rate=1))"));
  const UpdateRule rule = MakeRule(spec);

  EXPECT_EQ(rule.ParametersAt(2, {}, 0).learning_rate, 2);
  EXPECT_EQ(rule.ParametersAt(2, {.learning_rate = 0.5}, 0).learning_rate, 1);
  EXPECT_EQ(rule.ParametersAt(9, {}, 0).learning_rate, 3);
  EXPECT_EQ(
      rule.With({{"learning_rate", 5}})->ParametersAt(2, {}, 0).learning_rate,
      3);
}

TEST(UpdateRuleTest, OnlyOptimizersHaveASchedule) {
  RuleSpec spec = {"accumulate"};
  spec.schedule.name = "cosine";

  EXPECT_THAT(UpdateRule::Create(spec),
              StatusIs(StatusCode::kInvalidArgument,
                       "accumulate: expected no schedule without a "
                       "learning_rate, got \"cosine\""));
}

TEST(UpdateRuleTest, NoHyperparameterIsNotANumber) {
  for (const char* name : {"accumulate", "sgd", "adam", "adamw", "average",
                           "nadam", "rmsprop", "ftrl", "sgld"}) {
    const UpdateRule rule = MakeRule({name});
    for (const auto& [parameter, value] : rule.spec().hyperparameters) {
      for (const double wrong : {NAN, -INFINITY}) {
        EXPECT_THAT(
            rule.With({{parameter, wrong}}),
            StatusIs(StatusCode::kInvalidArgument, HasSubstr(parameter)))
            << name;
      }
    }
  }
}

TEST(UpdateRuleTest, OptimizersKeepAMasterOfSmallFloats) {
  const UpdateRule adam = MakeRule({"adam"});

  EXPECT_TRUE(adam.keeps_master(DType::kF16));
  EXPECT_TRUE(adam.keeps_master(DType::kBF16));
  EXPECT_TRUE(adam.keeps_master(DType::kF8E4M3FN));
  EXPECT_TRUE(adam.keeps_master(DType::kF8E5M2));
  EXPECT_FALSE(adam.keeps_master(DType::kF32));
  EXPECT_FALSE(adam.keeps_master(DType::kF64));
  EXPECT_FALSE(adam.keeps_master(DType::kI16));
}

TEST(UpdateRuleTest, NoMasterIsKeptWhereNotWanted) {
  EXPECT_FALSE(MakeRule({"assign"}).keeps_master(DType::kF16));
  EXPECT_FALSE(MakeRule({"accumulate"}).keeps_master(DType::kF16));
  EXPECT_FALSE(
      MakeRule({"adam", {}, /*keep_master=*/false}).keeps_master(DType::kF16));
}

TEST(UpdateRuleTest, OptimizersTakeFloatsOnly) {
  const UpdateRule sgd = MakeRule({"sgd"});

  EXPECT_OK(sgd.CheckTakes(DType::kF8E4M3FN));
  EXPECT_THAT(sgd.CheckTakes(DType::kI32),
              StatusIs(StatusCode::kInvalidArgument,
                       "sgd: expected a key of a float dtype, got i32"));
  EXPECT_THAT(sgd.CheckTakes(DType::kBool),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_OK(UpdateRule().CheckTakes(DType::kBool));
}

TEST(UpdateRuleTest, IntegersAccumulateWithWholeScales) {
  const UpdateRule half = MakeRule({"accumulate", {{"scale", 0.5}}});

  EXPECT_OK(half.CheckTakes(DType::kF16));
  EXPECT_THAT(half.CheckTakes(DType::kU8),
              StatusIs(StatusCode::kInvalidArgument,
                       "accumulate: scale must be a whole number for keys of "
                       "u8, got 0.5"));
  EXPECT_OK(MakeRule({"accumulate", {{"scale", -2}}}).CheckTakes(DType::kU8));
  EXPECT_THAT(
      MakeRule({"accumulate", {{"scale", 1e300}}}).CheckTakes(DType::kI64),
      StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv
