#include <array>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/byte_size.h"
#include "base/status_macros.h"
#include "client/cli/choice_option.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"
#include "client/cli/usage_error.h"
#include "tensor/rule_spec.h"

namespace tensorkv {
namespace {

struct NamespaceFlags {
  std::string name;
  NamespaceConfig config;  // without what has a text below
  std::string quorum_grace = "0s";
  std::string budget = "0";
  std::string rule = "assign";
  bool keep = false;
  bool force = false;
};

absl::StatusOr<NamespaceConfig> MakeConfig(const NamespaceFlags& flags) {
  NamespaceConfig config = flags.config;
  const absl::StatusOr<RuleSpec> rule = ParseRuleSpec(flags.rule);
  if (!rule.ok()) return AsUsageError("--rule", rule.status());
  config.rule = *rule;
  if (!absl::ParseDuration(flags.quorum_grace, &config.quorum_grace)) {
    return UsageError(absl::StrCat("--quorum_grace=", flags.quorum_grace,
                                   ": expected a duration, as 500ms"));
  }
  const absl::StatusOr<uint64_t> budget_bytes = ParseByteSize(flags.budget);
  if (!budget_bytes.ok()) {
    return AsUsageError("--budget", budget_bytes.status());
  }
  config.budget_bytes = *budget_bytes;
  return config;
}

absl::Status RunCreate(const NamespaceFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const NamespaceConfig config, MakeConfig(flags));
  return invocation.client.CreateNamespace(
      flags.name, config, flags.keep ? OnExisting::kKeep : OnExisting::kFail);
}

absl::Status RunNamespaceLs(const NamespaceFlags& flags,
                            Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<NamespaceStatus> namespaces,
                   invocation.client.ListNamespaces());
  invocation.Print(namespaces, NamespaceStatusJson,
                   NamespaceTable(namespaces, invocation.flags.columns()));
  return absl::OkStatus();
}

absl::Status RunDescribe(const NamespaceFlags& flags, Invocation& invocation) {
  const std::string& name =
      flags.name.empty() ? invocation.flags.name_space : flags.name;
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   invocation.client.DescribeNamespace(name));
  invocation.Print(std::array{status}, NamespaceStatusJson,
                   NamespaceText(status));
  return absl::OkStatus();
}

absl::Status RunWorkers(const NamespaceFlags& flags, Invocation& invocation) {
  const std::string& name =
      flags.name.empty() ? invocation.flags.name_space : flags.name;
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   invocation.client.DescribeNamespace(name));
  invocation.Print(status.workers, WorkerStatusJson,
                   WorkerTable(status.workers, invocation.flags.columns()));
  return absl::OkStatus();
}

absl::Status RunNamespaceRm(const NamespaceFlags& flags,
                            Invocation& invocation) {
  if (!flags.force) {
    ASSIGN_OR_RETURN(const NamespaceStatus status,
                     invocation.client.DescribeNamespace(flags.name));
    if (status.num_keys > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("namespace \"", flags.name, "\" has ", status.num_keys,
                       " keys: --force removes them, too"));
    }
  }
  return invocation.client.DeleteNamespace(flags.name);
}

void AddCreate(CLI::App& command, NamespaceFlags& flags) {
  command.add_option("name", flags.name, "The new namespace")->required();
  NamespaceConfig& config = flags.config;
  AddChoice(command, "--mode", config.mode, "async, sync or bounded");
  command.add_option("--workers", config.num_workers,
                     "Workers in the group; sync and bounded need it");
  command.add_option("--max_workers", config.max_workers,
                     "More than --workers: the group may grow to this");
  command.add_option("--staleness", config.staleness,
                     "bounded: steps that a worker may be ahead");
  AddChoice(command, "--on_worker_loss", config.on_worker_loss,
            "fail or continue the rounds of a lost worker");
  command.add_flag("--rescale", config.rescale_partial_rounds,
                   "Multiply the sum of n of N workers by N/n");
  command.add_option("--quorum", config.quorum,
                     "sync: contributions that close a round after a time");
  command.add_option("--quorum_grace", flags.quorum_grace,
                     "That time, as 500ms");
  AddChoice(command, "--aggregation", config.aggregation,
            "sync: the sum, median or trimmed_mean of a round");
  command.add_option("--trim_fraction", config.trim_fraction,
                     "trimmed_mean: left out at each end, below 0.5");
  command.add_flag("--mirrored", config.mirrored,
                   "sync, in a cluster: every server holds all keys");
  GradientGuard& guard = config.gradient_guard;
  AddChoice(command, "--non_finite", guard.on_non_finite,
            "apply, count, skip or refuse pushes that have Inf or NaN");
  command.add_option("--max_norm", guard.max_norm,
                     "Bound on the norm of each pushed tensor; 0: none");
  command.add_option("--max_call_norm", guard.max_call_norm,
                     "Bound on the norm of all tensors of a push; 0: none");
  AddChoice(command, "--large_norm", guard.on_large_norm,
            "clip or refuse pushes whose norm is above these");
  command.add_option("--rule", flags.rule, "The rule of its keys");
  command.add_option(
      "--budget", flags.budget,
      "Bytes it may hold, such as 8GiB; 0: as many as the server");
  command.add_option("--max_open_rounds", config.max_open_rounds,
                     "Rounds of a key open at once; 0: the server's default");
  command.add_flag("--keep", flags.keep,
                   "One that exists with the same configuration is no error");
}

}  // namespace

void AddNamespaceCommands(CLI::App& app, Action& action) {
  CLI::App* ns = app.add_subcommand("ns", "Create and inspect namespaces");
  ns->require_subcommand(1);
  auto flags = std::make_shared<NamespaceFlags>();

  const auto add = [&](const char* name, const char* help, auto run) {
    CLI::App* command = ns->add_subcommand(name, help);
    OnRun(*command, action, flags, run);
    return command;
  };
  AddCreate(*add("create", "Create a namespace", RunCreate), *flags);
  add("ls", "List all namespaces", RunNamespaceLs);
  add("describe", "Print one namespace; --namespace's if none is named",
      RunDescribe)
      ->add_option("name", flags->name, "The namespace");
  CLI::App* rm = add("rm", "Remove a namespace", RunNamespaceRm);
  rm->add_option("name", flags->name, "The namespace")->required();
  rm->add_flag("--force", flags->force, "Even one that has keys");
}

void AddWorkersCommand(CLI::App& app, Action& action) {
  auto flags = std::make_shared<NamespaceFlags>();
  CLI::App* command = app.add_subcommand(
      "workers",
      "List the workers of a namespace; --namespace's if none is "
      "named");
  command->add_option("name", flags->name, "The namespace");
  OnRun(*command, action, flags, RunWorkers);
}

}  // namespace tensorkv
