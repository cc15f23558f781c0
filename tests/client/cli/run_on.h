// Command lines that run on a connection of the test.

#ifndef TENSORKV_TESTS_CLIENT_CLI_RUN_ON_H_
#define TENSORKV_TESTS_CLIENT_CLI_RUN_ON_H_

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/cli/run_cli.h"

namespace tensorkv::testing {

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

// Runs `arguments` on what `connect` makes.
inline Outcome RunOn(absl::FunctionRef<std::unique_ptr<Connection>()> connect,
                     const std::vector<std::string>& arguments,
                     const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = RunCli(
      arguments, {.connect = [&](const std::string&,
                                 const Credentials&) { return connect(); },
                  .in = in,
                  .out = out,
                  .err = err});
  return {exit_code, out.str(), err.str()};
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_CLI_RUN_ON_H_
