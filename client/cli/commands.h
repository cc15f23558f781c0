// The commands of the CLI, by subject. Each function adds commands to `app`;
// when one is chosen on the command line, `action` becomes what it does.
// `app` and `action` must outlive the parsing.

#ifndef TENSORKV_CLIENT_CLI_COMMANDS_H_
#define TENSORKV_CLIENT_CLI_COMMANDS_H_

#include "client/cli/invocation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tensorkv {

// Adds init, push, pull, push_pull, set_state, get_state.
void AddValueCommands(CLI::App& app, Action& action);

// Adds ls, stat, rm.
void AddKeyCommands(CLI::App& app, Action& action);

// Adds ns create, ns ls, ns describe, ns rm.
void AddNamespaceCommands(CLI::App& app, Action& action);

// Adds workers.
void AddWorkersCommand(CLI::App& app, Action& action);

// Adds rounds.
void AddRoundsCommand(CLI::App& app, Action& action);

// Adds rule set, rule unset, rule get, rule tune.
void AddRuleCommands(CLI::App& app, Action& action);

// Adds server.
void AddServerCommand(CLI::App& app, Action& action);

// Adds cluster status, cluster resize.
void AddClusterCommands(CLI::App& app, Action& action);

// Adds checkpoint save, restore, ls, rm, verify.
void AddCheckpointCommands(CLI::App& app, Action& action);

// Adds snapshot create, ls, show, rm.
void AddSnapshotCommands(CLI::App& app, Action& action);

// Adds watch.
void AddWatchCommand(CLI::App& app, Action& action);

// Adds diff.
void AddDiffCommand(CLI::App& app, Action& action);

// Adds import.
void AddImportCommand(CLI::App& app, Action& action);

// Adds export.
void AddExportCommand(CLI::App& app, Action& action);

// Adds token new.
void AddTokenCommand(CLI::App& app, Action& action);

// Adds health.
void AddHealthCommand(CLI::App& app, Action& action);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_COMMANDS_H_
