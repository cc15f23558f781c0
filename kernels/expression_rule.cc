#include "kernels/expression_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/hyperparameter.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kLearningRateName = "learning_rate";
constexpr absl::string_view kWeightDecayName = "weight_decay";

}  // namespace

absl::StatusOr<std::shared_ptr<const ExpressionRule>> ExpressionRule::Create(
    const RuleSpec& spec) {
  std::vector<std::string> names;
  for (const auto& [name, value] : spec.hyperparameters) {
    if (!std::isfinite(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expression: ", QuotedName(name), " must be finite, got ", value));
    }
    names.push_back(name);
  }
  ASSIGN_OR_RETURN(Expression expression,
                   Expression::Compile(spec.expression, names));
  return absl::WrapUnique(new ExpressionRule(std::move(expression), spec));
}

ExpressionRule::ExpressionRule(Expression expression, const RuleSpec& spec)
    : expression_(std::move(expression)) {
  for (const std::string& name : expression_.states()) {
    states_.push_back({name});
  }
  for (const auto& [name, value] : spec.hyperparameters) {
    const int index = static_cast<int>(values_.size());
    if (name == kLearningRateName) learning_rate_ = index;
    if (name == kWeightDecayName) weight_decay_ = index;
    values_.push_back(value);
  }
}

template <typename T>
expression::ElementProgram<T> ExpressionRule::Bind(
    const RuleParameters& parameters) const {
  std::array<double, kMaxExpressionHyperparameters> values;
  std::copy(values_.begin(), values_.end(), values.begin());
  if (learning_rate_ >= 0) values[learning_rate_] = parameters.learning_rate;
  if (weight_decay_ >= 0) values[weight_decay_] = parameters.weight_decay;
  return expression_.Bind<T>(absl::MakeConstSpan(values.data(), values_.size()),
                             parameters.update_count);
}

template expression::ElementProgram<float> ExpressionRule::Bind(
    const RuleParameters&) const;
template expression::ElementProgram<double> ExpressionRule::Bind(
    const RuleParameters&) const;

}  // namespace tensorkv
