// The command line client, but for the process around it.

#ifndef TENSORKV_CLIENT_CLI_RUN_CLI_H_
#define TENSORKV_CLIENT_CLI_RUN_CLI_H_

#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/credentials.h"

namespace tensorkv {

// CliEnvironment holds what the client takes from outside.
struct CliEnvironment {
  // Opens a connection to --target.
  std::function<absl::StatusOr<std::unique_ptr<Connection>>(
      const std::string& target, const Credentials& credentials)>
      connect;
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  // Returns whether whoever read `out` has gone, as `head` does. Null: nobody
  // goes.
  std::function<bool()> is_reader_gone = nullptr;
};

// Exit statuses.
inline constexpr int kExitOk = 0;
inline constexpr int kExitCallFailed = 1;
inline constexpr int kExitUsage = 2;
// The reader of the results has gone: what shells give a program that SIGPIPE
// has ended.
inline constexpr int kExitReaderGone = 141;

// Runs one command line, without the program's name. Results go to `out`; what
// cannot be written there is an error, without a word if its reader has gone.
// An error is one line on `err`, "tensorkv: NOT_FOUND: key ..." for a call that
// failed, "tensorkv: --shape=2,x: ..." for wrong flags or values.
int RunCli(const std::vector<std::string>& arguments,
           const CliEnvironment& environment);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_RUN_CLI_H_
