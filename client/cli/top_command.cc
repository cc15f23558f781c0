#include <memory>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"
#include "client/cli/refresh_flags.h"

namespace tensorkv {
namespace {

absl::StatusOr<ServerLook> Look(Invocation& invocation) {
  ServerLook look = {.time = absl::Now()};
  ASSIGN_OR_RETURN(look.server, invocation.client.DescribeServer());
  ASSIGN_OR_RETURN(look.namespaces, invocation.client.ListNamespaces());
  return look;
}

void Print(const ServerLook& look, const ServerLook* before,
           Invocation& invocation) {
  if (invocation.flags.is_json()) {
    invocation.out << TopJson(look, before) << "\n";
  } else {
    // A terminal is cleared, and the whole picture drawn anew.
    invocation.out << (invocation.shows_out ? "\x1b[H\x1b[2J" : "")
                   << TopText(look, before, invocation.flags.columns())
                   << (invocation.shows_out ? "" : "\n");
  }
  invocation.out.flush();
}

absl::Status RunTop(const RefreshFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const absl::Duration interval, flags.ParseInterval());
  std::optional<ServerLook> before;
  for (uint64_t i = 0; invocation.out; ++i) {
    ASSIGN_OR_RETURN(ServerLook look, Look(invocation));
    Print(look, before ? &*before : nullptr, invocation);
    if (i + 1 == flags.count) break;
    before = std::move(look);
    absl::SleepFor(interval);
  }
  return absl::OkStatus();
}

}  // namespace

void AddTopCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<RefreshFlags>();
  CLI::App* const command = app.add_subcommand(
      "top", "Show memory and namespaces, with their rates, again and again");
  flags->AddTo(*command, "looks");
  OnRun(*command, action, flags, RunTop);
}

}  // namespace tensorkv
