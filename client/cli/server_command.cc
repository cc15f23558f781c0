#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"

namespace tensorkv {
namespace {

absl::Status RunServer(Invocation& invocation) {
  ASSIGN_OR_RETURN(const ServerStatus status,
                   invocation.client.DescribeServer());
  invocation.Print(status);
  return absl::OkStatus();
}

}  // namespace

void AddServerCommand(CLI::App& app, Action& action) {
  app.add_subcommand("server", "Print what the server is and what it holds")
      ->callback([&action] { action = RunServer; });
}

}  // namespace tensorkv
