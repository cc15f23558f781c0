#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/option_types.h"
#include "client/cli/usage_error.h"
#include "contract/proto_codec.h"
#include "tensor/rule_spec.h"

namespace tensorkv {
namespace {

struct RuleFlags {
  std::optional<RuleSpec> rule;
  std::string pattern;
  std::vector<std::string> assignments;
  std::optional<double> lr_mult;
  std::optional<double> wd_mult;
  bool multipliers = false;

  bool has_multipliers() const { return lr_mult || wd_mult; }
};

absl::Status RunSet(const RuleFlags& flags, Invocation& invocation) {
  if (!flags.rule && !flags.has_multipliers()) {
    return UsageError("rule set: expected a rule, --lr_mult or --wd_mult");
  }
  if (flags.has_multipliers()) {
    RETURN_IF_ERROR(invocation.client.SetMultipliers(
        {flags.lr_mult.value_or(1), flags.wd_mult.value_or(1)}, flags.pattern));
  }
  return flags.rule ? invocation.client.SetRule(*flags.rule, flags.pattern)
                    : absl::OkStatus();
}

absl::Status RunUnset(const RuleFlags& flags, Invocation& invocation) {
  return flags.multipliers ? invocation.client.UnsetMultipliers(flags.pattern)
                           : invocation.client.UnsetRule(flags.pattern);
}

absl::Status RunGet(const RuleFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(
      const NamespaceStatus status,
      invocation.client.DescribeNamespace(invocation.flags.name_space));
  invocation.PrintTable(status.rules(), {"key_pattern", "rule"});
  if (!status.multipliers().empty()) {
    invocation.PrintTable(status.multipliers(),
                          {"key_pattern", "multipliers.learning_rate",
                           "multipliers.weight_decay"});
  }
  return absl::OkStatus();
}

absl::StatusOr<Hyperparameters> ParseAssignments(
    const std::vector<std::string>& assignments) {
  Hyperparameters hyperparameters;
  for (const std::string& assignment : assignments) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(assignment, absl::MaxSplits('=', 1));
    double value;
    if (parts.first.empty() || !absl::SimpleAtod(parts.second, &value)) {
      return UsageError(absl::StrCat("rule tune: expected NAME=NUMBER, got \"",
                                     assignment, "\""));
    }
    hyperparameters[std::string(parts.first)] = value;
  }
  return hyperparameters;
}

absl::Status RunTune(const RuleFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const Hyperparameters hyperparameters,
                   ParseAssignments(flags.assignments));
  ASSIGN_OR_RETURN(const RuleSpec rule, invocation.client.SetHyperparameters(
                                            hyperparameters, flags.pattern));
  v1::RuleBinding binding;
  binding.set_key_pattern(flags.pattern);
  ToProto(rule, binding.mutable_rule());
  invocation.Print(binding);
  return absl::OkStatus();
}

void AddPattern(CLI::App& command, RuleFlags& flags) {
  command.add_option("--pattern", flags.pattern,
                     "Only keys like this glob, as '*.bias'");
}

}  // namespace

void AddRuleCommands(CLI::App& app, Action& action) {
  CLI::App* rule = app.add_subcommand("rule", "Choose and tune update rules");
  rule->require_subcommand(1);
  auto flags = std::make_shared<RuleFlags>();

  const auto add = [&](const char* name, const char* help, auto run) {
    CLI::App* command = rule->add_subcommand(name, help);
    OnRun(*command, action, flags, run);
    return command;
  };
  CLI::App* set = add("set", "Choose the rule of a namespace", RunSet);
  AddParsed(*set, "rule", flags->rule, ParseRuleSpec,
            "As 'adam(learning_rate=0.01)', "
            "'sgd(schedule=cosine(max_updates=1000))' or "
            "'expression(lr=0.1): stored -= lr * grad'");
  set->add_option("--lr_mult", flags->lr_mult,
                  "What multiplies the keys' learning rate, whatever their "
                  "rule is");
  set->add_option("--wd_mult", flags->wd_mult, "And their weight decay");
  AddPattern(*set, *flags);
  CLI::App* unset =
      add("unset", "Let other rules govern the keys of a pattern", RunUnset);
  unset->add_option("pattern", flags->pattern, "As '*.bias'")->required();
  unset->add_flag("--multipliers", flags->multipliers,
                  "Remove the pattern's --lr_mult and --wd_mult instead");
  add("get", "Print the rules and multipliers of a namespace", RunGet);
  CLI::App* tune =
      add("tune", "Change hyperparameters and keep all state", RunTune);
  tune->add_option("hyperparameters", flags->assignments,
                   "As learning_rate=0.001")
      ->required();
  AddPattern(*tune, *flags);
}

}  // namespace tensorkv
