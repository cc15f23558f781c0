#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/option_types.h"
#include "client/cli/usage_error.h"
#include "contract/proto_codec.h"
#include "tensor/rule_spec.h"

namespace tensorkv {
namespace {

struct NamespaceFlags {
  std::string name;
  NamespaceConfig config;
  OnExisting on_existing = OnExisting::kFail;
  bool force = false;
  // The command that tells which options were given.
  const CLI::App* update = nullptr;
};

// The options of what may change, and the fields that they set.
constexpr std::pair<const char*, const char*> kChangeable[] = {
    {"--on_worker_loss", "on_worker_loss"},
    {"--rescale", "rescale_partial_rounds"},
    {"--quorum", "quorum"},
    {"--quorum_grace", "quorum_grace"},
    {"--round_timeout", "round_timeout"},
    {"--non_finite", "gradient_guard.on_non_finite"},
    {"--max_norm", "gradient_guard.max_norm"},
    {"--max_call_norm", "gradient_guard.max_call_norm"},
    {"--large_norm", "gradient_guard.on_large_norm"},
    {"--budget", "budget_bytes"},
    {"--max_retained", "max_retained_bytes"},
};

absl::Status RunCreate(const NamespaceFlags& flags, Invocation& invocation) {
  return invocation.client.CreateNamespace(flags.name, flags.config,
                                           flags.on_existing);
}

absl::Status RunUpdate(const NamespaceFlags& flags, Invocation& invocation) {
  std::vector<std::string> update_mask;
  for (const auto& [option, field] : kChangeable) {
    if (flags.update->count(option) > 0) update_mask.emplace_back(field);
  }
  if (update_mask.empty()) {
    return UsageError("ns update: expected an option that is to change");
  }
  ASSIGN_OR_RETURN(const NamespaceConfig config,
                   invocation.client.UpdateNamespace(flags.name, flags.config,
                                                     std::move(update_mask)));
  UpdateNamespaceReply reply;
  ToProto(config, reply.mutable_config());
  invocation.Print(reply);
  return absl::OkStatus();
}

absl::Status RunNamespaceLs(const NamespaceFlags& flags,
                            Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<NamespaceStatus> namespaces,
                   invocation.client.ListNamespaces());
  invocation.PrintTable(
      namespaces, {"name", "config.mode", "config.num_workers", "live_workers",
                   "num_keys", "memory.values", "memory.state", "config.rule"});
  return absl::OkStatus();
}

// Leaves out what no call has waited for.
absl::StatusOr<NamespaceStatus> Describe(const NamespaceFlags& flags,
                                         Invocation& invocation) {
  const std::string& name =
      flags.name.empty() ? invocation.flags.name_space : flags.name;
  ASSIGN_OR_RETURN(NamespaceStatus status,
                   invocation.client.DescribeNamespace(name));
  auto& waits = *status.mutable_waits();
  waits.erase(
      std::remove_if(waits.begin(), waits.end(),
                     [](const v1::WaitStatus& wait) {
                       return wait.calls_waiting() + wait.calls_ended() == 0;
                     }),
      waits.end());
  return status;
}

absl::Status RunDescribe(const NamespaceFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const NamespaceStatus status, Describe(flags, invocation));
  invocation.Print(status);
  return absl::OkStatus();
}

absl::Status RunWorkers(const NamespaceFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const NamespaceStatus status, Describe(flags, invocation));
  invocation.PrintTable(status.workers(),
                        {"worker.rank", "name", "worker.epoch", "live", "left",
                         "step", "lease_remaining"});
  return absl::OkStatus();
}

absl::Status RunNamespaceRm(const NamespaceFlags& flags,
                            Invocation& invocation) {
  uint64_t uid = 0;
  if (!flags.force) {
    ASSIGN_OR_RETURN(const NamespaceStatus status,
                     invocation.client.DescribeNamespace(flags.name));
    if (status.num_keys() > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("namespace \"", flags.name, "\" has ", status.num_keys(),
                       " keys: --force removes them, too"));
    }
    uid = status.uid();
  }
  return invocation.client.DeleteNamespace(flags.name, uid);
}

// Adds the options of kChangeable.
void AddChangeable(CLI::App& command, NamespaceConfig& config) {
  AddChoice(command, "--on_worker_loss", config.on_worker_loss,
            "fail or continue the rounds of a lost worker");
  command.add_flag("--rescale", config.rescale_partial_rounds,
                   "Multiply the sum of n of N workers by N/n");
  command.add_option("--quorum", config.quorum,
                     "sync: contributions that close a round after a time");
  AddParsed(command, "--quorum_grace", config.quorum_grace, ParseDurationOrZero,
            "That time, as 500ms");
  AddParsed(
      command, "--round_timeout", config.round_timeout, ParseDurationOrZero,
      "sync: the time after which a round of too few contributions fails");
  GradientGuard& guard = config.gradient_guard;
  AddChoice(command, "--non_finite", guard.on_non_finite,
            "apply, count, skip or refuse pushes that have Inf or NaN");
  command.add_option("--max_norm", guard.max_norm,
                     "Bound on the norm of each pushed tensor; 0: none");
  command.add_option("--max_call_norm", guard.max_call_norm,
                     "Bound on the norm of all tensors of a push; 0: none");
  AddChoice(command, "--large_norm", guard.on_large_norm,
            "clip or refuse pushes whose norm is above these");
  AddParsed(command, "--budget", config.budget_bytes, ParseByteSize,
            "Bytes it may hold, such as 8GiB; 0: as many as the server");
  AddParsed(command, "--max_retained", config.max_retained_bytes, ParseByteSize,
            "Bytes that its snapshots may keep of former values; 0: as many as "
            "the server");
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
  AddChoice(command, "--aggregation", config.aggregation,
            "What contributions become: sum or mean; sync also median or "
            "trimmed_mean");
  command.add_option("--trim_fraction", config.trim_fraction,
                     "trimmed_mean: left out at each end, below 0.5");
  AddChoice(command, "--sum_order", config.sum_order,
            "sync: rank, for the same bits every time, or arrival, for memory "
            "that does not grow with the number of workers");
  AddChoice(command, "--late", config.late,
            "sync: refuse what comes after a quorum has closed its round, or "
            "carry it into the next round");
  command.add_option("--staleness_decay", config.staleness_decay,
                     "mean: the factor of what is carried, for each step");
  command.add_flag("--mirrored", config.mirrored,
                   "sync, in a cluster: every server holds all keys");
  AddParsed(command, "--rule", config.rule, ParseRuleSpec,
            "The rule of its keys");
  command.add_option("--max_open_rounds", config.max_open_rounds,
                     "Rounds of a key open at once; 0: the server's default");
  AddChangeable(command, config);
  AddChoice(command, "--on_existing", flags.on_existing,
            "fail, or keep one that exists with the same configuration",
            {"fail", "keep"});
}

void AddUpdate(CLI::App& command, NamespaceFlags& flags) {
  command.add_option("name", flags.name, "The namespace")->required();
  AddChangeable(command, flags.config);
  flags.update = &command;
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
  AddUpdate(*add("update", "Change options of a namespace while it is used",
                 RunUpdate),
            *flags);
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
