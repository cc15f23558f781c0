#include "client/cli/run_cli.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "client/cli/commands.h"
#include "client/cli/invocation.h"
#include "client/cli/option_types.h"
#include "client/cli/plain_text.h"
#include "client/cli/usage_error.h"
#include "client/client.h"

namespace tensorkv {
namespace {

void AddCredentialFlags(CLI::App& app, Credentials& credentials) {
  app.add_option("--tls_ca", credentials.tls_ca,
                 "PEM file of who signs the server's certificate; without it "
                 "nothing is encrypted");
  app.add_option("--tls_cert", credentials.tls_cert,
                 "PEM file of the client's own certificate");
  app.add_option("--tls_key", credentials.tls_key, "PEM file of its key");
  app.add_option("--tls_server_name", credentials.tls_server_name,
                 "The name in the server's certificate, if not that of "
                 "--target");
  app.add_option("--token_file", credentials.token_file,
                 "File of a bearer token, for TLS and Unix sockets");
}

void AddGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  app.add_option("--target", flags.target,
                 "Address of the server, or cluster:HOST:PORT,... for several "
                 "as one")
      ->envname("TENSORKV_TARGET")
      ->capture_default_str();
  AddCredentialFlags(app, flags.credentials);
  app.add_option("-n,--namespace", flags.name_space,
                 "Namespace of the keys [default]");
  app.add_option("-o,--output", flags.output,
                 "table, or json: protobuf's, of the messages in proto/, with "
                 "64-bit integers as strings")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  AddParsed(app, "-t,--timeout", flags.timeout, ParseDuration,
            "Bound of every call, as 500ms [30s]");
  app.add_option("--rank", flags.rank, "Sign calls as this worker");
  app.add_option("--step", flags.step, "The worker's step of a push")
      ->check(CLI::NonNegativeNumber);
  for (CLI::Option* option : app.get_options()) option->take_last();
}

void AddCommands(CLI::App& app, Action& action) {
  AddValueCommands(app, action);
  AddKeyCommands(app, action);
  AddNamespaceCommands(app, action);
  AddWorkersCommand(app, action);
  AddRoundsCommand(app, action);
  AddRuleCommands(app, action);
  AddServerCommand(app, action);
  AddClusterCommands(app, action);
  AddCheckpointCommands(app, action);
  AddSnapshotCommands(app, action);
  AddDiffCommand(app, action);
  AddWatchCommand(app, action);
  AddImportCommand(app, action);
  AddExportCommand(app, action);
  AddTokenCommand(app, action);
  AddHealthCommand(app, action);
  app.set_version_flag("--version", absl::StrCat("tensorkv ", kVersion));
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 if all went well, 1 if a call failed, 2 if the command "
      "line was wrong, 141 if whoever read the results went away.");
}

// Lets the global flags stand after a command, too.
void LetFlagsFallThrough(CLI::App& app) {
  for (CLI::App* command :
       app.get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();
    command->footer("tensorkv --help lists the flags that all commands take.");
    LetFlagsFallThrough(*command);
  }
}

// CLI11 takes what is in brackets for a list of values, which the name of a key
// is not. Arguments that begin so get this before them, which none can have.
constexpr char kBracketMark = '\0';

std::string WithMark(std::string argument) {
  if (absl::StartsWith(argument, "[")) argument.insert(0, 1, kBracketMark);
  return argument;
}

std::string WithoutMark(std::string argument) {
  if (!argument.empty() && argument[0] == kBracketMark) argument.erase(0, 1);
  return argument;
}

// Has all options take the mark away.
void TakeMarksAway(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) option->transform(WithoutMark);
  for (CLI::App* command :
       app.get_subcommands([](CLI::App*) { return true; })) {
    TakeMarksAway(*command);
  }
}

// Returns what was wrong with the command line. Of an unknown command CLI11
// says only that one is missing.
std::string MessageOf(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const bool misses_command =
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
      !unknown.empty() && !absl::StartsWith(unknown.front(), "-");
  return misses_command
             ? absl::StrCat("no such command: ", WithoutMark(unknown.front()))
             : PlainText(error.what());
}

// Returns the command as far as it was understood, as "tensorkv ns create".
std::string CommandOf(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) return app.get_name();
  return absl::StrCat(app.get_name(), " ", CommandOf(*chosen.back()));
}

// CLI11 wants the arguments in reverse. Its exceptions end here.
// Returns the exit code if that was all there is to do.
std::optional<int> Parse(CLI::App& app, std::vector<std::string> arguments,
                         const CliEnvironment& environment) {
  std::transform(arguments.begin(), arguments.end(), arguments.begin(),
                 WithMark);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    environment.out << version.what() << "\n";
    return kExitOk;
  } catch (const CLI::Success& help) {
    environment.out << app.help();
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    environment.err << "tensorkv: " << MessageOf(app, error) << " (see "
                    << CommandOf(app) << " --help)\n";
    return kExitUsage;
  }
}

absl::Status RunAction(const Action& action, const GlobalFlags& flags,
                       const CliEnvironment& environment) {
  const auto connect =
      [&](const std::string& target) -> absl::StatusOr<Client> {
    ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                     environment.connect(target, flags.credentials));
    // No target: the user has just said which server it is.
    return Client(std::move(connection), {.target = "",
                                          .name_space = flags.name_space,
                                          .rank = flags.rank,
                                          .timeout = flags.timeout});
  };
  absl::StatusOr<Client> client = connect(flags.target);
  if (!client.ok()) return AsUsageError("--target", client.status());
  Invocation invocation = {.flags = flags,
                           .client = *client,
                           .client_of = connect,
                           .in = environment.in,
                           .out = environment.out};
  return action(invocation);
}

int Report(const absl::Status& status, std::ostream& err) {
  if (status.ok()) return kExitOk;
  if (IsUsageError(status)) {
    err << "tensorkv: " << PlainText(status.message()) << "\n";
    return kExitUsage;
  }
  err << "tensorkv: " << absl::StatusCodeToString(status.code()) << ": "
      << PlainText(status.message()) << "\n";
  return kExitCallFailed;
}

int RunCommand(const std::vector<std::string>& arguments,
               const CliEnvironment& environment) {
  CLI::App app("A client of TensorKV, a networked key-value store of tensors",
               "tensorkv");
  GlobalFlags flags;
  Action action;
  AddGlobalFlags(app, flags);
  AddCommands(app, action);
  LetFlagsFallThrough(app);
  TakeMarksAway(app);
  if (const auto exit_code = Parse(app, arguments, environment)) {
    return *exit_code;
  }
  return Report(RunAction(action, flags, environment), environment.err);
}

}  // namespace

int RunCli(const std::vector<std::string>& arguments,
           const CliEnvironment& environment) {
  const int exit_code = RunCommand(arguments, environment);
  environment.out.flush();
  if (environment.out || exit_code != kExitOk) return exit_code;
  if (environment.is_reader_gone && environment.is_reader_gone()) {
    return kExitReaderGone;
  }
  return Report(absl::DataLossError("cannot write to the standard output"),
                environment.err);
}

}  // namespace tensorkv
