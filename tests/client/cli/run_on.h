// Command lines that run on a connection of the test.

#ifndef TENSORKV_TESTS_CLIENT_CLI_RUN_ON_H_
#define TENSORKV_TESTS_CLIENT_CLI_RUN_ON_H_

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/cli/run_cli.h"

namespace tensorkv::testing {

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

// Runs `arguments` on what `connect` makes; the health check answers `health`.
inline Outcome RunOn(absl::FunctionRef<std::unique_ptr<Connection>()> connect,
                     const std::vector<std::string>& arguments,
                     const std::string& input = "",
                     const absl::Status& health = absl::OkStatus()) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = RunCli(
      arguments, {.connect = [&](const std::string&,
                                 const Credentials&) { return connect(); },
                  .check_health = [&](const std::string&, const Credentials&,
                                      absl::Duration) { return health; },
                  .in = in,
                  .out = out,
                  .err = err});
  return {exit_code, out.str(), err.str()};
}

// The same on a connection of its own.
inline Outcome RunOn(std::unique_ptr<Connection> connection,
                     const std::vector<std::string>& arguments,
                     const std::string& input = "",
                     const absl::Status& health = absl::OkStatus()) {
  return RunOn([&] { return std::move(connection); }, arguments, input, health);
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_CLI_RUN_ON_H_
