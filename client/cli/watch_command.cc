#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/change_watch.h"
#include "client/cli/commands.h"
#include "client/cli/option_types.h"

namespace tensorkv {
namespace {

struct WatchFlags {
  WatchOptions watch;
  std::optional<absl::Duration> interval;
  uint64_t count = 0;
};

absl::Status RunWatch(const WatchFlags& flags, Invocation& invocation) {
  WatchOptions options = flags.watch;
  if (flags.interval) options.interval = *flags.interval;
  ChangeWatch watch(invocation.client, options);
  uint64_t num_told = 0;
  return watch.Follow([&](std::vector<v1::Change> changes) {
    const uint64_t num_left = flags.count - num_told;
    if (flags.count > 0 && changes.size() > num_left) changes.resize(num_left);
    invocation.PrintTable(
        changes, {"revision", "key", "version", "deleted", "series", "number"},
        /*with_header=*/num_told == 0);
    invocation.out.flush();
    num_told += changes.size();
    return invocation.out.good() &&
           (flags.count == 0 || num_told < flags.count);
  });
}

}  // namespace

void AddWatchCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<WatchFlags>();
  CLI::App* const watch = app.add_subcommand(
      "watch", "Print what changes, until it is interrupted");
  watch->add_option("prefix", flags->watch.prefix,
                    "Keys that begin like this [all]");
  watch->add_option("--key", flags->watch.key, "One key, in place of a prefix");
  watch->add_option("--series", flags->watch.series,
                    "Snapshots of this series; empty: of all");
  watch->add_flag("--initial", flags->watch.initial,
                  "Print first what there is");
  AddParsed(*watch, "--interval", flags->interval, ParseDuration,
            "Gather changes for so long [100ms]");
  watch
      ->add_option("--count", flags->count, "End after so many changes [never]")
      ->check(CLI::NonNegativeNumber);
  OnRun(*watch, action, flags, RunWatch);
}

}  // namespace tensorkv
