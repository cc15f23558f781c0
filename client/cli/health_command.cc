#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/health_check.h"

namespace tensorkv {
namespace {

absl::Status RunHealth(Invocation& invocation) {
  const GlobalFlags& flags = invocation.flags;
  RETURN_IF_ERROR(CheckHealth(flags.target, flags.credentials, flags.timeout));
  invocation.out << (flags.is_json() ? "{\"status\":\"SERVING\"}" : "SERVING")
                 << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddHealthCommand(CLI::App& app, Action& action) {
  app.add_subcommand("health", "Ask whether the server serves; exit 0 if so")
      ->callback([&action] { action = RunHealth; });
}

}  // namespace tensorkv
