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

// tensorkv.v1.Schedule, which documents the schedules and their arguments.
struct ScheduleSpec {
  std::string name = "constant";
  Hyperparameters arguments;
  std::vector<uint64_t> steps;

  // "multi_factor(factor=0.5, steps=[100, 200])".
  std::string ToString() const;

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

// What a key's learning rate and weight decay are multiplied by.
struct Multipliers {
  double learning_rate = 1;
  double weight_decay = 1;

  friend bool operator==(const Multipliers&, const Multipliers&) = default;
};

// tensorkv.v1.Rule, which documents the rules and their hyperparameters. Not
// checked: the server knows which rules there are.
struct RuleSpec {
  std::string name = "assign";
  Hyperparameters hyperparameters;
  bool keep_master = true;
  // What becomes of the learning rate over time.
  ScheduleSpec schedule;
  // What the rule `expression` computes.
  std::string expression;

  // "adam(beta1=0.9, learning_rate=0.01)"; "assign" without parentheses;
  // "sgd(learning_rate=1, schedule=cosine(max_updates=1000))";
  // "expression(lr=0.1): stored -= lr * grad".
  std::string ToString() const;

  friend bool operator==(const RuleSpec&, const RuleSpec&) = default;
};

// Reads the form that ToString writes; `keep_master=0` is the flag of that
// name. Errors: InvalidArgument, naming the character where reading ended.
absl::StatusOr<RuleSpec> ParseRuleSpec(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_RULE_SPEC_H_
