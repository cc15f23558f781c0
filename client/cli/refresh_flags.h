// The flags of commands that look at a server again and again.

#ifndef TENSORKV_CLIENT_CLI_REFRESH_FLAGS_H_
#define TENSORKV_CLIENT_CLI_REFRESH_FLAGS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/usage_error.h"

namespace tensorkv {

struct RefreshFlags {
  std::string interval = "2s";
  uint64_t count = 0;

  // REQUIRES: the flags outlive the command.
  void AddTo(CLI::App& command, const std::string& what) {
    command.add_option("--interval", interval, "Between two looks, as 500ms")
        ->capture_default_str();
    command.add_option("--count", count,
                       "End after so many " + what + "; 0: never");
  }

  // Errors: UsageError.
  absl::StatusOr<absl::Duration> ParseInterval() const {
    absl::Duration parsed;
    if (absl::ParseDuration(interval, &parsed) &&
        parsed >= absl::Milliseconds(1)) {
      return parsed;
    }
    return UsageError(absl::StrCat("--interval=", interval,
                                   ": expected 1ms or more, as 500ms"));
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_REFRESH_FLAGS_H_
