// The command line of tensorkv-server.

#ifndef TENSORKV_SERVICE_SERVER_SERVER_FLAGS_H_
#define TENSORKV_SERVICE_SERVER_SERVER_FLAGS_H_

#include <string>
#include <variant>

#include "absl/time/time.h"
#include "service/server/server_options.h"

namespace tensorkv {

struct ServerFlags {
  ServerOptions server;
  absl::Duration drain_timeout = absl::Seconds(10);
  // Memory that was free for so long, at most twice as long, goes back to the
  // system.
  absl::Duration idle_memory = absl::Seconds(30);
  // True if connections in plain text are looked at before gRPC does it
  // (service/guard/).
  bool connection_guard = true;
  std::string log_level = "info";   // debug, info, warning or error
  std::string log_format = "text";  // or json
};

// EarlyExit says how the process is to end without serving.
struct EarlyExit {
  int code = 0;
  // Is what --help, --version or --print_config print to stdout, or one line
  // for stderr where code is not 0.
  std::string text;
};

// Parses the command line, the environment and the file of --config. Wrong
// flags and values give an EarlyExit with code 2.
std::variant<ServerFlags, EarlyExit> ParseServerFlags(int argc,
                                                      const char* const* argv);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVER_FLAGS_H_
