// A rule as the contract names it.

#ifndef TENSORKV_TENSOR_RULE_SPEC_H_
#define TENSORKV_TENSOR_RULE_SPEC_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

using Hyperparameters = std::map<std::string, double>;

// tensorkv.v1.Rule, which documents the rules and their hyperparameters. Not
// checked: the server knows which rules there are.
struct RuleSpec {
  std::string name = "assign";
  Hyperparameters hyperparameters;
  bool keep_master = true;

  // "adam(beta1=0.9, learning_rate=0.01)"; "assign" without parentheses.
  std::string ToString() const;

  friend bool operator==(const RuleSpec&, const RuleSpec&) = default;
};

// Reads the form that ToString writes; `keep_master=0` is the flag of that
// name. Errors: InvalidArgument, naming the character where reading ended.
absl::StatusOr<RuleSpec> ParseRuleSpec(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_RULE_SPEC_H_
