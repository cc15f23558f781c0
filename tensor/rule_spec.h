// A rule as the contract names it.

#ifndef TENSORKV_TENSOR_RULE_SPEC_H_
#define TENSORKV_TENSOR_RULE_SPEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

using Hyperparameters = std::map<std::string, double>;

// A schedule of learning rates by its name, not checked. tensorkv.v1.Schedule
// documents the schedules and their arguments.
struct ScheduleSpec {
  std::string name = "constant";
  Hyperparameters arguments;
  std::vector<uint64_t> steps;

  // Returns "multi_factor(factor=0.5, steps=[100, 200])".
  std::string ToString() const;

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

// What a key's learning rate and weight decay are multiplied by.
struct Multipliers {
  double learning_rate = 1;
  double weight_decay = 1;

  friend bool operator==(const Multipliers&, const Multipliers&) = default;
};

// An update rule by its name, not checked: the server knows which rules there
// are. tensorkv.v1.Rule documents the rules and their hyperparameters.
struct RuleSpec {
  std::string name = "assign";
  Hyperparameters hyperparameters;
  // Whether keys of small floats keep an f32 master copy of their value.
  bool keep_master = true;
  // How the learning rate changes with a key's updates.
  ScheduleSpec schedule;
  // The text of the rule `expression`; empty for other rules.
  std::string expression;

  // Returns "adam(beta1=0.9, learning_rate=0.01)"; "assign" without
  // parentheses; "sgd(learning_rate=1, schedule=cosine(max_updates=1000))";
  // "expression(lr=0.1): stored -= lr * grad".
  std::string ToString() const;

  friend bool operator==(const RuleSpec&, const RuleSpec&) = default;
};

// Reads the form that RuleSpec::ToString writes; `keep_master=0` sets the
// member of that name. Does not check that the rule exists.
// Errors: InvalidArgument, naming the character where reading ended.
absl::StatusOr<RuleSpec> ParseRuleSpec(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_RULE_SPEC_H_
