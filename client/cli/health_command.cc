#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"

namespace tensorkv {
namespace {

absl::Status RunHealth(Invocation& invocation) {
  RETURN_IF_ERROR(invocation.check_health());
  invocation.out << (invocation.flags.is_json() ? "{\"status\":\"SERVING\"}"
                                                : "SERVING")
                 << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddHealthCommand(CLI::App& app, Action& action) {
  app.add_subcommand("health", "Ask whether the server serves; exit 0 if so")
      ->callback([&action] { action = RunHealth; });
}

}  // namespace tensorkv
