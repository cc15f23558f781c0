#include <array>
#include <string>
#include <utility>
#include <vector>

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

std::string ServerText(const ServerStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {"version:", status.version},
      {"incarnation:", absl::StrFormat("%016x", status.incarnation)},
      {"started:",
       absl::FormatTime(absl::FromUnixSeconds(status.start_unix_seconds),
                        absl::UTCTimeZone())},
      {"devices:", absl::StrJoin(status.devices, " ")},
      {"budget:", ByteText(status.budget_bytes)},
      {"used:", ByteText(status.used_bytes)},
      {"largest message:", ByteText(status.max_message_bytes)},
      {"max entries:", absl::StrCat(status.max_entries)}};
  for (const DeviceBudget& on : status.device_budgets) {
    rows.push_back({absl::StrCat("on ", on.device, ":"),
                    absl::StrCat(ByteText(on.used_bytes), " of ",
                                 ByteText(on.budget_bytes))});
  }
  return TableText(std::move(rows));
}

absl::Status RunServer(Invocation& invocation) {
  ASSIGN_OR_RETURN(const ServerStatus status,
                   invocation.client.DescribeServer());
  invocation.Print(std::array{status}, ServerStatusJson, ServerText(status));
  return absl::OkStatus();
}

}  // namespace

void AddServerCommand(CLI::App& app, Action& action) {
  app.add_subcommand("server", "Print what the server is and what it holds")
      ->callback([&action] { action = RunServer; });
}

}  // namespace tensorkv
