// The rule `expression`: a text and the values of its hyperparameters.

#ifndef TENSORKV_KERNELS_EXPRESSION_RULE_H_
#define TENSORKV_KERNELS_EXPRESSION_RULE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/expression/expression.h"
#include "kernels/ops/rule_parameters.h"
#include "kernels/state_spec.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

// A compiled expression with the values of its hyperparameters. Immutable, and
// shared by the copies of the UpdateRule that it belongs to.
//
// As in optimizers, the hyperparameter learning_rate follows the schedule, and
// it and weight_decay are multiplied for a key.
class ExpressionRule {
 public:
  // Errors: InvalidArgument for what Expression::Compile refuses, or a value
  // that is not finite.
  static absl::StatusOr<std::shared_ptr<const ExpressionRule>> Create(
      const RuleSpec& spec);

  absl::Span<const StateSpec> states() const { return states_; }

  // Returns how many instructions run for each element.
  size_t num_instructions() const { return expression_.num_instructions(); }

  // Returns the program to run for each element of one update, whose accumulate
  // type is T: float or double. Uses learning rate, weight decay and update
  // count of `parameters`, and nothing else.
  template <typename T>
  expression::ElementProgram<T> Bind(const RuleParameters& parameters) const;

 private:
  explicit ExpressionRule(Expression expression, const RuleSpec& spec);

  const Expression expression_;
  std::vector<StateSpec> states_;  // their names are the expression's
  std::vector<double> values_;
  int learning_rate_ = -1;  // indices; -1: there is none
  int weight_decay_ = -1;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_EXPRESSION_RULE_H_
