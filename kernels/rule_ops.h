// From a rule to the functor of kernels/ops that computes it.

#ifndef TENSORKV_KERNELS_RULE_OPS_H_
#define TENSORKV_KERNELS_RULE_OPS_H_

#include "kernels/backend.h"
#include "kernels/expression_rule.h"
#include "kernels/op_types.h"
#include "kernels/update_rule.h"

namespace tensorkv {

// Calls `visit` with a functor of kernels/ops that computes the update, whose
// accumulate type is T: a float type, an integer type or ops::Bool.
// REQUIRES: the rule takes such keys; else `visit` is not called.
template <typename T, typename Visitor>
void VisitRuleOp(const TensorUpdate& update, Visitor visit) {
  const UpdateRule& rule = *update.rule;
  VisitOpType<T>(rule.kind(), [&](auto type) {
    using Op = typename decltype(type)::Op;
    RuleParameters parameters =
        rule.ParametersAt(update.update_count, update.multipliers, update.seed);
    parameters.num_elements = update.value.num_elements;
    if constexpr (expression::kIsProgram<Op>) {
      visit(rule.expression()->template Bind<T>(parameters));
    } else {
      visit(Op::Create(parameters));
    }
  });
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_RULE_OPS_H_
