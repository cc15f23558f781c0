// From a rule's number to the type of its functor. No Abseil: CUDA sources
// include this too.

#ifndef TENSORKV_KERNELS_OP_TYPES_H_
#define TENSORKV_KERNELS_OP_TYPES_H_

#include <type_traits>

#include "kernels/ops/key_sums.h"
#include "kernels/rule_table.h"

namespace tensorkv {

template <typename T>
struct OpType {
  using Op = T;
};

// Calls `visit` with an OpType whose Op is the type of the rule's functor over
// T, a float type, an integer type or ops::Bool. Does nothing if the rule does
// not take T.
template <typename T, typename Visitor>
void VisitOpType(RuleKind kind, Visitor visit) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (kind) {
#define TENSORKV_VISIT(Kind, Functor, ...) \
  case RuleKind::k##Kind:                  \
    return visit(OpType<ops::Functor<T>>());
      TENSORKV_RULES(TENSORKV_VISIT)
#undef TENSORKV_VISIT
    }
  } else {
    if (kind == RuleKind::kAssign) return visit(OpType<ops::Assign<T>>());
    if (kind == RuleKind::kAccumulate) {
      return visit(OpType<ops::Accumulate<T>>());
    }
  }
}

// Returns the sums over the whole key that the rule's functor needs, by its f32
// form.
constexpr ops::SumsOfOp SumsOfRule(RuleKind kind) {
  switch (kind) {
#define TENSORKV_SUMS(Kind, Functor, ...) \
  case RuleKind::k##Kind:                 \
    return ops::SumsOf<ops::Functor<float>>();
    TENSORKV_RULES(TENSORKV_SUMS)
#undef TENSORKV_SUMS
  }
  return {};
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_OP_TYPES_H_
