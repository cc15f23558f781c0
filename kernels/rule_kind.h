// The functors that rules run, by number.

#ifndef TENSORKV_KERNELS_RULE_KIND_H_
#define TENSORKV_KERNELS_RULE_KIND_H_

#include <cstdint>

namespace tensorkv {

// Which functor of kernels/ops a rule runs.
enum class RuleKind : uint8_t {
  kAssign,
  kAccumulate,
  kSgd,
  kSgdMomentum,
  kAdam,
  kAdamW,
};

inline constexpr int kNumRuleKinds = 6;

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_RULE_KIND_H_
