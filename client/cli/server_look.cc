#include "client/cli/server_look.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/plain_text.h"
#include "contract/choice_names.h"

namespace tensorkv {
namespace {

std::string ServerLine(const ServerLook& look) {
  const absl::Duration up =
      look.time - absl::FromUnixSeconds(look.server.start_unix_seconds);
  std::string line =
      absl::StrCat("tensorkv ", look.server.version, ", up ",
                   absl::FormatDuration(absl::Trunc(up, absl::Seconds(1))),
                   ", ", ByteText(look.server.used_bytes), " of ",
                   ByteText(look.server.budget_bytes), " used");
  for (const DeviceBudget& on : look.server.device_budgets) {
    absl::StrAppend(&line, ", on ", on.device, " ", ByteText(on.used_bytes),
                    " of ", ByteText(on.budget_bytes));
  }
  return PlainText(line) + "\n";
}

std::vector<std::string> NamespaceRow(
    const NamespaceStatus& status, const std::optional<NamespaceRates>& rates) {
  const auto rate = [&](double NamespaceRates::*of) {
    return rates ? absl::StrFormat("%.1f", (*rates).*of) : "-";
  };
  return {status.name,
          std::string(NameOf(status.config.mode)),
          absl::StrCat(status.live_workers),
          absl::StrCat(status.config.num_workers),
          absl::StrCat(status.num_keys),
          ByteText(BytesOf(status.memory)),
          rate(&NamespaceRates::updates_per_second),
          rate(&NamespaceRates::rounds_per_second),
          absl::StrCat(status.rounds_open),
          absl::StrCat(status.calls_waiting),
          absl::StrCat(status.slowest_lag)};
}

}  // namespace

std::optional<NamespaceRates> RatesOf(const NamespaceStatus& status,
                                      const ServerLook& look,
                                      const ServerLook* before) {
  // The counts of a server that was started anew begin with 0.
  if (before == nullptr || look.time <= before->time ||
      look.server.incarnation != before->server.incarnation) {
    return std::nullopt;
  }
  const double seconds = absl::ToDoubleSeconds(look.time - before->time);
  for (const NamespaceStatus& former : before->namespaces) {
    if (former.name != status.name || former.uid != status.uid) continue;
    return NamespaceRates{
        (status.updates_applied - former.updates_applied) / seconds,
        (status.rounds_closed - former.rounds_closed) / seconds};
  }
  return std::nullopt;
}

std::string TopText(const ServerLook& look, const ServerLook* before,
                    Columns columns) {
  std::vector<std::vector<std::string>> rows = {
      Row(columns,
          {"namespace", "mode", "live", "workers", "keys", "size", "updates/s",
           "rounds/s", "open", "waiting", "lag"},
          {"failed", "late", "values", "state", "contributions"})};
  for (const NamespaceStatus& status : look.namespaces) {
    rows.push_back(
        Row(columns, NamespaceRow(status, RatesOf(status, look, before)),
            {absl::StrCat(status.rounds_failed),
             absl::StrCat(status.contributions_late),
             ByteText(status.memory.values), ByteText(status.memory.state),
             ByteText(status.memory.contributions)}));
  }
  return ServerLine(look) + TableText(std::move(rows));
}

}  // namespace tensorkv
