#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/byte_size.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"
#include "client/cli/usage_error.h"
#include "tensor/rule_spec.h"

namespace tensorkv {
namespace {

struct NamespaceFlags {
  std::string name;
  std::string mode = "async";
  uint32_t num_workers = 0;
  uint32_t max_workers = 0;
  uint32_t max_open_rounds = 0;
  uint32_t staleness = 0;
  std::string on_worker_loss = "fail";
  bool rescale = false;
  uint32_t quorum = 0;
  std::string quorum_grace = "0s";
  std::string aggregation = "sum";
  double trim_fraction = 0;
  std::string non_finite = "apply";
  double max_norm = 0;
  double max_call_norm = 0;
  std::string large_norm = "clip";
  std::string budget = "0";
  std::string rule = "assign";
  bool keep = false;
  bool force = false;
};

Mode ModeOf(const std::string& name) {
  if (name == "sync") return Mode::kSync;
  return name == "bounded" ? Mode::kBounded : Mode::kAsync;
}

Aggregation AggregationOf(const std::string& name) {
  if (name == "median") return Aggregation::kMedian;
  return name == "trimmed_mean" ? Aggregation::kTrimmedMean : Aggregation::kSum;
}

GradientGuard GuardOf(const NamespaceFlags& flags) {
  GradientGuard guard = {.max_norm = flags.max_norm,
                         .max_call_norm = flags.max_call_norm};
  if (flags.non_finite == "count") guard.on_non_finite = OnNonFinite::kCount;
  if (flags.non_finite == "skip") guard.on_non_finite = OnNonFinite::kSkip;
  if (flags.non_finite == "refuse") guard.on_non_finite = OnNonFinite::kRefuse;
  if (flags.large_norm == "refuse") guard.on_large_norm = OnLargeNorm::kRefuse;
  return guard;
}

absl::StatusOr<NamespaceConfig> MakeConfig(const NamespaceFlags& flags) {
  const absl::StatusOr<RuleSpec> rule = ParseRuleSpec(flags.rule);
  if (!rule.ok()) return AsUsageError("--rule", rule.status());
  absl::Duration quorum_grace;
  if (!absl::ParseDuration(flags.quorum_grace, &quorum_grace)) {
    return UsageError(absl::StrCat("--quorum_grace=", flags.quorum_grace,
                                   ": expected a duration, as 500ms"));
  }
  const absl::StatusOr<uint64_t> budget_bytes = ParseByteSize(flags.budget);
  if (!budget_bytes.ok()) {
    return AsUsageError("--budget", budget_bytes.status());
  }
  return NamespaceConfig{.mode = ModeOf(flags.mode),
                         .num_workers = flags.num_workers,
                         .max_workers = flags.max_workers,
                         .rule = *rule,
                         .budget_bytes = *budget_bytes,
                         .staleness = flags.staleness,
                         .on_worker_loss = flags.on_worker_loss == "continue"
                                               ? OnWorkerLoss::kContinue
                                               : OnWorkerLoss::kFail,
                         .rescale_partial_rounds = flags.rescale,
                         .quorum = flags.quorum,
                         .quorum_grace = quorum_grace,
                         .max_open_rounds = flags.max_open_rounds,
                         .gradient_guard = GuardOf(flags),
                         .aggregation = AggregationOf(flags.aggregation),
                         .trim_fraction = flags.trim_fraction};
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
  if (!invocation.flags.is_json()) {
    invocation.out << NamespaceTable(namespaces);
    return absl::OkStatus();
  }
  for (const NamespaceStatus& status : namespaces) {
    invocation.out << NamespaceStatusJson(status) << "\n";
  }
  return absl::OkStatus();
}

absl::Status RunDescribe(const NamespaceFlags& flags, Invocation& invocation) {
  const std::string& name =
      flags.name.empty() ? invocation.flags.name_space : flags.name;
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   invocation.client.DescribeNamespace(name));
  if (invocation.flags.is_json()) {
    invocation.out << NamespaceStatusJson(status) << "\n";
  } else {
    invocation.out << NamespaceText(status);
  }
  return absl::OkStatus();
}

absl::Status RunWorkers(const NamespaceFlags& flags, Invocation& invocation) {
  const std::string& name =
      flags.name.empty() ? invocation.flags.name_space : flags.name;
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   invocation.client.DescribeNamespace(name));
  if (!invocation.flags.is_json()) {
    invocation.out << WorkerTable(status.workers);
    return absl::OkStatus();
  }
  for (const WorkerStatus& worker : status.workers) {
    invocation.out << WorkerStatusJson(worker) << "\n";
  }
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
  command.add_option("--mode", flags.mode, "async, sync or bounded")
      ->check(CLI::IsMember({"async", "sync", "bounded"}));
  command.add_option("--workers", flags.num_workers,
                     "Workers in the group; sync and bounded need it");
  command.add_option("--max_workers", flags.max_workers,
                     "More than --workers: the group may grow to this");
  command.add_option("--staleness", flags.staleness,
                     "bounded: steps that a worker may be ahead");
  command
      .add_option("--on_worker_loss", flags.on_worker_loss,
                  "fail or continue the rounds of a lost worker")
      ->check(CLI::IsMember({"fail", "continue"}));
  command.add_flag("--rescale", flags.rescale,
                   "Multiply the sum of n of N workers by N/n");
  command.add_option("--quorum", flags.quorum,
                     "sync: contributions that close a round after a time");
  command.add_option("--quorum_grace", flags.quorum_grace,
                     "That time, as 500ms");
  command
      .add_option("--aggregation", flags.aggregation,
                  "sync: the sum, median or trimmed_mean of a round")
      ->check(CLI::IsMember({"sum", "median", "trimmed_mean"}));
  command.add_option("--trim_fraction", flags.trim_fraction,
                     "trimmed_mean: left out at each end, below 0.5");
  command
      .add_option("--non_finite", flags.non_finite,
                  "apply, count, skip or refuse pushes that have Inf or NaN")
      ->check(CLI::IsMember({"apply", "count", "skip", "refuse"}));
  command.add_option("--max_norm", flags.max_norm,
                     "Bound on the norm of each pushed tensor; 0: none");
  command.add_option("--max_call_norm", flags.max_call_norm,
                     "Bound on the norm of all tensors of a push; 0: none");
  command
      .add_option("--large_norm", flags.large_norm,
                  "clip or refuse pushes whose norm is above these")
      ->check(CLI::IsMember({"clip", "refuse"}));
  command.add_option("--rule", flags.rule, "The rule of its keys");
  command.add_option(
      "--budget", flags.budget,
      "Bytes it may hold, such as 8GiB; 0: as many as the server");
  command.add_option("--max_open_rounds", flags.max_open_rounds,
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
    command->callback([&action, flags, run] {
      action = [flags, run](Invocation& invocation) {
        return run(*flags, invocation);
      };
    });
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
  command->callback([&action, flags] {
    action = [flags](Invocation& invocation) {
      return RunWorkers(*flags, invocation);
    };
  });
}

}  // namespace tensorkv
