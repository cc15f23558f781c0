// Rules as the backends see them: checked hyperparameters and state layout.

#ifndef TENSORKV_KERNELS_UPDATE_RULE_H_
#define TENSORKV_KERNELS_UPDATE_RULE_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/ops/rule_parameters.h"
#include "kernels/rule_table.h"
#include "kernels/schedule.h"
#include "kernels/state_spec.h"
#include "tensor/dtype.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

class ExpressionRule;

// The most hyperparameters that a rule has besides those of every optimizer.
inline constexpr int kMaxOwnHyperparameters = 8;

// A checked rule. proto/tensorkv/v1/rule.proto says what each rule computes. A
// value type; const access is thread-safe.
class UpdateRule {
 public:
  // Makes `assign`.
  UpdateRule() = default;
  // Returns a rule `assign` that never goes.
  static const UpdateRule& Assign() {
    static const UpdateRule* const assign = new UpdateRule();
    return *assign;
  }

  // Returns the rule that `spec` names, with defaults for what it leaves out.
  // Errors: InvalidArgument for an unknown name or hyperparameter (the message
  // lists the known ones), or a value that is NaN, infinite or out of range;
  // those of Schedule::Create and ExpressionRule::Create.
  static absl::StatusOr<UpdateRule> Create(const RuleSpec& spec);

  // Returns this rule with the values of some hyperparameters changed.
  // Errors: those of Create.
  absl::StatusOr<UpdateRule> With(const Hyperparameters& changed) const;

  RuleKind kind() const { return kind_; }
  // Returns every hyperparameter, defaults included.
  const RuleSpec& spec() const { return spec_; }

  // Returns whether a key whose rule changes from `before` to this one keeps
  // its states and its update count: both are one rule with other
  // hyperparameters, or expressions with the same states.
  bool Continues(const UpdateRule& before) const;

  // Returns the parameters of update `t` (from 1) of a key, with the learning
  // rate of the schedule; without num_elements. The result refers to this rule.
  // Does not allocate.
  RuleParameters ParametersAt(uint64_t t, const Multipliers& multipliers,
                              uint64_t seed) const;

  // Returns the compiled expression; null unless kind() is kExpression.
  const ExpressionRule* expression() const { return expression_.get(); }

  // Returns the tensors that the rule keeps per key, without the master copy.
  absl::Span<const StateSpec> states() const;
  int num_states() const { return static_cast<int>(states().size()); }

  // Returns about how often an update computes for one element as long as it
  // takes to read and write the element. At least 1.
  uint64_t work_factor() const;

  // Returns whether the result depends on the key's seed.
  bool takes_seed() const { return kind_ == RuleKind::kSgld; }

  // Returns whether the result for an element depends on sums over all elements
  // of the key: then no row can be updated without the others.
  bool takes_sums() const;

  // Returns whether keys of `dtype` keep an f32 master copy of their value.
  bool keeps_master(DType dtype) const;

  // Errors: InvalidArgument if the rule does not take keys of `dtype`, or not
  // with these hyperparameters.
  absl::Status CheckTakes(DType dtype) const;

 private:
  // These set members from spec_, and complete spec_ by defaults.
  absl::Status SetHyperparameters();
  absl::Status SetExpression();
  absl::Status SetSchedule();
  absl::Status CheckScheduledRates() const;

  RuleKind kind_ = RuleKind::kAssign;
  double learning_rate_ = 0;
  double weight_decay_ = 0;
  double rescale_grad_ = 1;
  double clip_gradient_ = -1;
  std::array<double, kMaxOwnHyperparameters> own_ = {};
  Schedule schedule_;
  std::shared_ptr<const ExpressionRule> expression_;
  RuleSpec spec_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_UPDATE_RULE_H_
