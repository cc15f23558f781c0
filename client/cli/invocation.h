// What the commands of the CLI work with.

#ifndef TENSORKV_CLIENT_CLI_INVOCATION_H_
#define TENSORKV_CLIENT_CLI_INVOCATION_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/credentials.h"

namespace tensorkv {

// The flags that every command takes.
struct GlobalFlags {
  std::string server;
  Credentials credentials;
  std::string name_space;
  std::string output = "text";
  std::string timeout = "30s";
  std::optional<uint32_t> rank;
  Step step = 0;

  bool is_json() const { return output == "json"; }
};

// One run of one command. Refers to what RunCli owns.
struct Invocation {
  const GlobalFlags& flags;
  Client& client;
  // A client of another server, with the flags' credentials and timeout.
  std::function<absl::StatusOr<Client>(const std::string& target)> client_of;
  // Whether the server says that it serves; an error if it does not.
  std::function<absl::Status()> check_health;
  std::istream& in;
  std::ostream& out;
};

// What a command does once the command line is read. Errors are those of its
// call, or UsageError.
using Action = std::function<absl::Status(Invocation&)>;

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_INVOCATION_H_
