// Declares what the commands of the CLI work with.

#ifndef TENSORKV_CLIENT_CLI_INVOCATION_H_
#define TENSORKV_CLIENT_CLI_INVOCATION_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/message_text.h"
#include "client/client.h"
#include "client/credentials.h"

namespace tensorkv {

// The flags that every command takes.
struct GlobalFlags {
  std::string target = "127.0.0.1:7363";
  Credentials credentials;
  std::string name_space;
  std::string output = "table";
  absl::Duration timeout = absl::Seconds(30);
  std::optional<uint32_t> rank;
  Step step = 0;

  bool is_json() const { return output == "json"; }
};

// One run of one command. Refers to what RunCli owns.
struct Invocation {
  const GlobalFlags& flags;
  Client& client;
  // A client of another server, with the flags' namespace, credentials and
  // timeout.
  std::function<absl::StatusOr<Client>(const std::string& target)> client_of;
  std::istream& in;
  std::ostream& out;

  // Prints the message as MessageJson or MessageText.
  void Print(const google::protobuf::Message& message) {
    out << (flags.is_json() ? MessageJson(message) + "\n"
                            : MessageText(message));
  }

  // Prints each message as MessageJson, or all as MessageTable.
  template <typename Messages>
  void PrintTable(const Messages& messages,
                  const std::vector<std::string>& columns,
                  bool with_header = true) {
    if (flags.is_json()) {
      for (const auto& message : messages) Print(message);
      return;
    }
    std::vector<const google::protobuf::Message*> rows;
    for (const auto& message : messages) rows.push_back(&message);
    const std::string table = MessageTable(rows, columns);
    out << (with_header ? table : table.substr(table.find('\n') + 1));
  }
};

// An Action does what a command does once the command line is read. Its errors
// are those of the call, or UsageError.
using Action = std::function<absl::Status(Invocation&)>;

// Has the command run as `run(*flags, invocation)`.
template <typename Flags, typename Run>
void OnRun(CLI::App& command, Action& action,
           const std::shared_ptr<Flags>& flags, Run run) {
  command.callback([&action, flags, run] {
    action = [flags, run](Invocation& invocation) {
      return run(*flags, invocation);
    };
  });
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_INVOCATION_H_
