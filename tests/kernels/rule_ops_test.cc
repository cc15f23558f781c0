#include "kernels/rule_ops.h"

#include <cstdint>
#include <type_traits>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// Whether the rule's functor over T is Op.
template <typename Op, typename T>
bool Runs(const RuleSpec& spec) {
  bool is_op = false;
  const UpdateRule rule = *UpdateRule::Create(spec);
  VisitRuleOp<T>({.rule = &rule}, [&](const auto& op) {
    is_op = std::is_same_v<std::decay_t<decltype(op)>, Op>;
  });
  return is_op;
}

TEST(RuleOpsTest, EveryRuleFindsItsFunctor) {
  EXPECT_TRUE((Runs<ops::Assign<float>, float>({"assign"})));
  EXPECT_TRUE((Runs<ops::Accumulate<double>, double>({"accumulate"})));
  EXPECT_TRUE((Runs<ops::Sgd<float>, float>({"sgd"})));
  EXPECT_TRUE(
      (Runs<ops::SgdMomentum<float>, float>({"sgd", {{"momentum", 0.5}}})));
  EXPECT_TRUE((Runs<ops::Adam<double>, double>({"adam"})));
  EXPECT_TRUE((Runs<ops::AdamW<float>, float>({"adamw"})));
}

TEST(RuleOpsTest, IntegersHaveTheRulesThatTakeThem) {
  EXPECT_TRUE((Runs<ops::Assign<int8_t>, int8_t>({"assign"})));
  EXPECT_TRUE((Runs<ops::Accumulate<ops::Bool>, ops::Bool>({"accumulate"})));
}

TEST(RuleOpsTest, UpdateCountAndMultipliersReachTheFunctor) {
  const UpdateRule adam = *UpdateRule::Create(
      {"adam", {{"learning_rate", 1}, {"beta1", 0}, {"beta2", 0.75}}});

  const TensorUpdate update = {
      .rule = &adam, .update_count = 1, .multipliers = {.learning_rate = 4}};
  VisitRuleOp<double>(update, [](const auto& op) {
    if constexpr (std::is_same_v<std::decay_t<decltype(op)>,
                                 ops::Adam<double>>) {
      EXPECT_EQ(op.learning_rate_t, 2);
    }
  });
}

}  // namespace
}  // namespace tensorkv
