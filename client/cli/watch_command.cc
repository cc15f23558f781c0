#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/namespace_changes.h"
#include "client/cli/plain_text.h"
#include "client/cli/refresh_flags.h"

namespace tensorkv {
namespace {

struct WatchFlags {
  std::string name;
  RefreshFlags refresh = {.interval = "1s"};
};

// Returns the namespace's status; nothing if there is no such namespace.
// Errors: others.
absl::StatusOr<std::optional<NamespaceStatus>> Look(const std::string& name,
                                                    Invocation& invocation) {
  absl::StatusOr<NamespaceStatus> status =
      invocation.client.DescribeNamespace(name);
  if (absl::IsNotFound(status.status())) return std::nullopt;
  RETURN_IF_ERROR(status.status());
  return *std::move(status);
}

std::vector<NamespaceChange> ChangesOf(
    const std::optional<NamespaceStatus>& before,
    const std::optional<NamespaceStatus>& after) {
  if (before && after) return ChangesBetween(*before, *after);
  if (before) return {{"deleted", ""}};
  if (after) return {{"created", absl::StrCat(after->num_keys, " keys")}};
  return {};
}

void Print(const std::string& name, const NamespaceChange& change,
           Invocation& invocation) {
  const absl::Time now = absl::Now();
  if (invocation.flags.is_json()) {
    invocation.out << NamespaceChangeJson(name, change, now) << "\n";
  } else {
    invocation.out << absl::FormatTime("%H:%M:%S ", now, absl::LocalTimeZone())
                   << change.what << (change.detail.empty() ? "" : ": ")
                   << PlainText(change.detail) << "\n";
  }
  invocation.out.flush();
}

absl::Status RunWatch(const WatchFlags& flags, Invocation& invocation) {
  const std::string& name =
      flags.name.empty() ? invocation.client.name_space() : flags.name;
  ASSIGN_OR_RETURN(const absl::Duration interval,
                   flags.refresh.ParseInterval());
  // A name that is not there when the watching begins is a mistake of the user.
  ASSIGN_OR_RETURN(std::optional<NamespaceStatus> before,
                   invocation.client.DescribeNamespace(name));
  uint64_t num_changes = 0;
  while (invocation.out) {
    absl::SleepFor(interval);
    ASSIGN_OR_RETURN(std::optional<NamespaceStatus> after,
                     Look(name, invocation));
    for (const NamespaceChange& change : ChangesOf(before, after)) {
      Print(name, change, invocation);
      if (++num_changes == flags.refresh.count) return absl::OkStatus();
    }
    before = std::move(after);
  }
  return absl::OkStatus();
}

}  // namespace

void AddWatchCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<WatchFlags>();
  CLI::App* const command = app.add_subcommand(
      "watch",
      "Print what happens in a namespace: workers, keys, rules, failures; "
      "--namespace's if none is named");
  command->add_option("name", flags->name, "The namespace");
  flags->refresh.AddTo(*command, "changes");
  command->callback([&action, flags] {
    action = [flags](Invocation& invocation) {
      return RunWatch(*flags, invocation);
    };
  });
}

}  // namespace tensorkv
