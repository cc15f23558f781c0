#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"

namespace tensorkv {
namespace {

absl::Status RunServer(Invocation& invocation) {
  ASSIGN_OR_RETURN(const ServerStatus status,
                   invocation.client.DescribeServer());
  if (invocation.flags.is_json()) {
    invocation.out << ServerStatusJson(status) << "\n";
  } else {
    invocation.out << ServerText(status);
  }
  return absl::OkStatus();
}

}  // namespace

void AddServerCommand(CLI::App& app, Action& action) {
  app.add_subcommand("server", "Print what the server is and what it holds")
      ->callback([&action] { action = RunServer; });
}

}  // namespace tensorkv
