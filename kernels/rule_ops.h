// From a rule to the functor of kernels/ops that computes it.

#ifndef TENSORKV_KERNELS_RULE_OPS_H_
#define TENSORKV_KERNELS_RULE_OPS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/ops/accumulate.h"
#include "kernels/ops/adam.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/assign.h"
#include "kernels/ops/sgd.h"
#include "kernels/ops/sgd_momentum.h"
#include "kernels/update_rule.h"

namespace tensorkv {

// Calls `visit` with the functor for update `t` of a key whose accumulate type
// is T: a float type, an integer type or ops::Bool.
// REQUIRES: the rule takes such keys.
template <typename T, typename Visitor>
void VisitRuleOp(const UpdateRule& rule, uint64_t t, Visitor visit) {
  const double* values = rule.hyperparameters();
  if (rule.kind() == RuleKind::kAssign) {
    return visit(ops::Assign<T>::Create(values, t));
  }
  if (rule.kind() == RuleKind::kAccumulate) {
    return visit(ops::Accumulate<T>::Create(values, t));
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (rule.kind()) {
      case RuleKind::kSgd:
        return visit(ops::Sgd<T>::Create(values, t));
      case RuleKind::kSgdMomentum:
        return visit(ops::SgdMomentum<T>::Create(values, t));
      case RuleKind::kAdam:
        return visit(ops::Adam<T>::Create(values, t));
      case RuleKind::kAdamW:
        return visit(ops::AdamW<T>::Create(values, t));
      default:
        return;
    }
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_RULE_OPS_H_
