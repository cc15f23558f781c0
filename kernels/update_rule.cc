#include "kernels/update_rule.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/expression_rule.h"
#include "kernels/hyperparameter.h"
#include "kernels/op_types.h"

namespace tensorkv {
namespace {

// Which keys a rule takes, and what rules for such keys have in common.
struct KeyKind {
  bool takes_integers = false;
  bool is_optimizer = false;
  Hyperparameter learning_rate = {};
};

struct RuleRow {
  absl::string_view name;
  KeyKind keys;
  // Up to the first without a name.
  Hyperparameter own[kMaxOwnHyperparameters];
  StateSpec states[kMaxRuleStates + 1];
};

using enum StateShape;
constexpr KeyKind kAnyKeys = {.takes_integers = true};
constexpr KeyKind kFloatKeys;
constexpr char kLearningRate[] = "learning_rate";
constexpr Hyperparameter kWeightDecay = {"weight_decay", 0, kFinite};
constexpr Hyperparameter kRescaleGrad = {"rescale_grad", 1, kFinite};
constexpr Hyperparameter kClipGradient = {"clip_gradient", -1, kFinite};

// By kind.
#define OPTIMIZER(rate, range)                    \
  {                                               \
    false, true, { "learning_rate", rate, range } \
  }
#define OWN(...) \
  { __VA_ARGS__ }
#define STATES(...) \
  { __VA_ARGS__ }
#define TENSORKV_ROW(Kind, Functor, name, keys, own, states, source) \
  {name, keys, own, states},
constexpr RuleRow kRules[] = {TENSORKV_RULES(TENSORKV_ROW)};
#undef TENSORKV_ROW
#undef STATES
#undef OWN
#undef OPTIMIZER

const RuleRow& RowOf(RuleKind kind) { return kRules[static_cast<int>(kind)]; }

absl::Status UnknownRule(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const RuleRow& row : kRules) known.push_back(row.name);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return absl::InvalidArgumentError(absl::StrCat("rule: expected one of ",
                                                 absl::StrJoin(known, ", "),
                                                 ", got ", QuotedName(name)));
}

absl::StatusOr<RuleKind> FindRule(absl::string_view name) {
  for (int i = 0; i < kNumRuleKinds; ++i) {
    if (kRules[i].name == name) return static_cast<RuleKind>(i);
  }
  return UnknownRule(name);
}

// Returns whether the number is whole, and one that i64 and double both hold
// exactly.
bool IsWholeNumber(double value) {
  constexpr double kMaxWhole = 9007199254740992.0;  // 2^53
  return std::trunc(value) == value && std::abs(value) <= kMaxWhole;
}

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::Create(const RuleSpec& spec) {
  UpdateRule rule;
  ASSIGN_OR_RETURN(rule.kind_, FindRule(spec.name));
  rule.spec_ = spec;
  RETURN_IF_ERROR(rule.kind_ == RuleKind::kExpression
                      ? rule.SetExpression()
                      : rule.SetHyperparameters());
  RETURN_IF_ERROR(rule.SetSchedule());
  const int next = static_cast<int>(rule.kind_) + 1;
  const bool has_variant =
      next < kNumRuleKinds && kRules[next].name == spec.name;
  if (has_variant && rule.own_[0] != 0) {
    rule.kind_ = static_cast<RuleKind>(next);
  }
  return rule;
}

absl::Status UpdateRule::SetHyperparameters() {
  const RuleRow& row = RowOf(kind_);
  if (!spec_.expression.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.name, ": expected no expression, got ",
                     QuotedName(spec_.expression)));
  }
  std::vector<HyperparameterTarget> targets;
  if (row.keys.is_optimizer) {
    targets = {{&row.keys.learning_rate, &learning_rate_},
               {&kWeightDecay, &weight_decay_},
               {&kRescaleGrad, &rescale_grad_},
               {&kClipGradient, &clip_gradient_}};
  }
  for (int i = 0; i < kMaxOwnHyperparameters && !row.own[i].name.empty(); ++i) {
    targets.push_back({&row.own[i], &own_[i]});
  }
  return ReadHyperparameters(row.name, targets, spec_.hyperparameters);
}

absl::Status UpdateRule::SetExpression() {
  ASSIGN_OR_RETURN(expression_, ExpressionRule::Create(spec_));
  for (const auto& [name, value] : spec_.hyperparameters) {
    if (name == kLearningRate) learning_rate_ = value;
    if (name == kWeightDecay.name) weight_decay_ = value;
  }
  return absl::OkStatus();
}

absl::Status UpdateRule::SetSchedule() {
  if (spec_.schedule == ScheduleSpec()) return absl::OkStatus();
  const bool has_rate =
      RowOf(kind_).keys.is_optimizer ||
      (expression_ != nullptr && spec_.hyperparameters.contains(kLearningRate));
  if (!has_rate) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec_.name, ": expected no schedule without a ",
                     kLearningRate, ", got ", QuotedName(spec_.schedule.name)));
  }
  ASSIGN_OR_RETURN(schedule_, Schedule::Create(spec_.schedule));
  spec_.schedule = schedule_.spec();
  return CheckScheduledRates();
}

// A schedule stays between the rate that it is given and those that it names.
absl::Status UpdateRule::CheckScheduledRates() const {
  const KeyKind& keys = RowOf(kind_).keys;
  if (!keys.is_optimizer) return absl::OkStatus();
  for (const auto& [name, value] : spec_.schedule.arguments) {
    const bool is_rate = absl::EndsWith(name, kLearningRate);
    if (!is_rate || keys.learning_rate.range.contains(value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(spec_.name, ": ", name, " of its schedule must be ",
                     keys.learning_rate.range.text, ", got ", value));
  }
  return absl::OkStatus();
}

absl::StatusOr<UpdateRule> UpdateRule::With(
    const Hyperparameters& changed) const {
  RuleSpec spec = spec_;
  for (const auto& [name, value] : changed) spec.hyperparameters[name] = value;
  return Create(spec);
}

bool UpdateRule::Continues(const UpdateRule& before) const {
  if (spec_.name != before.spec_.name) return false;
  return kind_ != RuleKind::kExpression || states() == before.states();
}

RuleParameters UpdateRule::ParametersAt(uint64_t t,
                                        const Multipliers& multipliers,
                                        uint64_t seed) const {
  return {.learning_rate =
              schedule_.RateAt(learning_rate_, t) * multipliers.learning_rate,
          .weight_decay = weight_decay_ * multipliers.weight_decay,
          .rescale_grad = rescale_grad_,
          .clip_gradient = clip_gradient_,
          .own = own_.data(),
          .update_count = t,
          .seed = seed};
}

absl::Span<const StateSpec> UpdateRule::states() const {
  if (expression_ != nullptr) return expression_->states();
  const RuleRow& row = RowOf(kind_);
  size_t count = 0;
  while (!row.states[count].name.empty()) ++count;
  return absl::MakeConstSpan(row.states, count);
}

uint64_t UpdateRule::work_factor() const {
  switch (kind_) {
    case RuleKind::kExpression:
      return std::max<uint64_t>(expression_->num_instructions(), 1);
    case RuleKind::kSgld:
      return 32;
    case RuleKind::kNadam:
      return 8;
    default:
      return 1;
  }
}

bool UpdateRule::takes_sums() const { return SumsOfRule(kind_).num_phases > 0; }

bool UpdateRule::keeps_master(DType dtype) const {
  return !RowOf(kind_).keys.takes_integers && IsFloat(dtype) &&
         AccumulateType(dtype) != dtype && spec_.keep_master;
}

absl::Status UpdateRule::CheckTakes(DType dtype) const {
  if (IsFloat(dtype)) return absl::OkStatus();
  const RuleRow& row = RowOf(kind_);
  if (!row.keys.takes_integers) {
    return absl::InvalidArgumentError(absl::StrCat(
        row.name, ": expected a key of a float dtype, got ", NameOf(dtype)));
  }
  if (kind_ == RuleKind::kAccumulate && !IsWholeNumber(own_[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.name, ": scale must be a whole number for keys of ",
                     NameOf(dtype), ", got ", own_[0]));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
