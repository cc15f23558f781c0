// From a rule's number to the type of its functor. No Abseil: CUDA sources
// include this too.

#ifndef TENSORKV_KERNELS_OP_TYPES_H_
#define TENSORKV_KERNELS_OP_TYPES_H_

#include <type_traits>

#include "kernels/ops/accumulate.h"
#include "kernels/ops/adam.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/assign.h"
#include "kernels/ops/sgd.h"
#include "kernels/ops/sgd_momentum.h"
#include "kernels/rule_kind.h"

namespace tensorkv {

template <typename T>
struct OpType {
  using Op = T;
};

// Calls `visit` with an OpType of the functor that the rule runs over T, a
// float type, an integer type or ops::Bool. Does nothing if the rule does not
// take T.
template <typename T, typename Visitor>
void VisitOpType(RuleKind kind, Visitor visit) {
  if (kind == RuleKind::kAssign) return visit(OpType<ops::Assign<T>>());
  if (kind == RuleKind::kAccumulate) return visit(OpType<ops::Accumulate<T>>());
  if constexpr (std::is_floating_point_v<T>) {
    switch (kind) {
      case RuleKind::kSgd:
        return visit(OpType<ops::Sgd<T>>());
      case RuleKind::kSgdMomentum:
        return visit(OpType<ops::SgdMomentum<T>>());
      case RuleKind::kAdam:
        return visit(OpType<ops::Adam<T>>());
      case RuleKind::kAdamW:
        return visit(OpType<ops::AdamW<T>>());
      default:
        return;
    }
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_OP_TYPES_H_
