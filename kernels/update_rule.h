// Rules as the backends see them: checked hyperparameters and state layout.

#ifndef TENSORKV_KERNELS_UPDATE_RULE_H_
#define TENSORKV_KERNELS_UPDATE_RULE_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/rule_kind.h"
#include "tensor/dtype.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

inline constexpr int kMaxHyperparameters = 8;
inline constexpr int kMaxRuleStates = 2;

// A checked rule. What each rule computes is written in
// proto/tensorkv/v1/rule.proto. A value type; const access is thread-safe.
class UpdateRule {
 public:
  // assign.
  UpdateRule() = default;

  // Errors: InvalidArgument for an unknown name or hyperparameter (the message
  // lists the known ones), or a value that is NaN, infinite or out of range.
  static absl::StatusOr<UpdateRule> Create(const RuleSpec& spec);

  // This rule with some hyperparameters changed. Errors: as Create.
  absl::StatusOr<UpdateRule> With(const Hyperparameters& changed) const;

  RuleKind kind() const { return kind_; }
  // With every hyperparameter, defaults included.
  const RuleSpec& spec() const { return spec_; }

  // In the order of the rule's row in rule.proto's table.
  double hyperparameter(int index) const { return values_[index]; }
  const double* hyperparameters() const { return values_.data(); }

  // State tensors per key, in the dtype's accumulate type, shaped like the
  // value; without the master copy.
  int num_states() const;

  // Whether keys of `dtype` keep an f32 master copy of their value.
  bool keeps_master(DType dtype) const;

  // Errors: InvalidArgument if the rule does not take keys of `dtype`, or not
  // with these hyperparameters.
  absl::Status CheckTakes(DType dtype) const;

 private:
  RuleKind kind_ = RuleKind::kAssign;
  std::array<double, kMaxHyperparameters> values_ = {};
  RuleSpec spec_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_UPDATE_RULE_H_
