#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"
#include "client/cli/usage_error.h"
#include "tensor/rule_spec.h"

namespace tensorkv {
namespace {

struct RuleFlags {
  std::string spec;
  std::string pattern;
  std::vector<std::string> assignments;
};

absl::Status RunSet(const RuleFlags& flags, Invocation& invocation) {
  const absl::StatusOr<RuleSpec> rule = ParseRuleSpec(flags.spec);
  if (!rule.ok()) {
    return AsUsageError(absl::StrCat("rule \"", flags.spec, "\""),
                        rule.status());
  }
  return invocation.client.SetRule(*rule, flags.pattern);
}

absl::Status RunUnset(const RuleFlags& flags, Invocation& invocation) {
  return invocation.client.UnsetRule(flags.pattern);
}

void PrintRules(const std::vector<RuleBinding>& rules, Invocation& invocation) {
  if (!invocation.flags.is_json()) {
    invocation.out << RuleTable(rules);
    return;
  }
  for (const RuleBinding& binding : rules) {
    invocation.out << RuleJson(binding.key_pattern, binding.rule) << "\n";
  }
}

absl::Status RunGet(const RuleFlags&, Invocation& invocation) {
  ASSIGN_OR_RETURN(
      const NamespaceStatus status,
      invocation.client.DescribeNamespace(invocation.flags.name_space));
  PrintRules(status.rules, invocation);
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
  PrintRules({{flags.pattern, rule}}, invocation);
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
    command->callback([&action, flags, run] {
      action = [flags, run](Invocation& invocation) {
        return run(*flags, invocation);
      };
    });
    return command;
  };
  CLI::App* set = add("set", "Choose the rule of a namespace", RunSet);
  set->add_option("rule", flags->spec, "As 'adam(learning_rate=0.01)'")
      ->required();
  AddPattern(*set, *flags);
  CLI::App* unset =
      add("unset", "Let other rules govern the keys of a pattern", RunUnset);
  unset->add_option("pattern", flags->pattern, "As '*.bias'")->required();
  add("get", "Print the rules of a namespace", RunGet);
  CLI::App* tune =
      add("tune", "Change hyperparameters and keep all state", RunTune);
  tune->add_option("hyperparameters", flags->assignments,
                   "As learning_rate=0.001")
      ->required();
  AddPattern(*tune, *flags);
}

}  // namespace tensorkv
