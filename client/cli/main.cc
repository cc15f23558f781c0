// tensorkv: the command line client.

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/run_cli.h"
#include "client/cluster/connect.h"
#include "client/connection.h"
#include "google/protobuf/stubs/logging.h"

namespace tensorkv {
namespace {

// A person sees at once that no server answers; a server that goes away during
// a call is waited for.
absl::StatusOr<std::unique_ptr<Connection>> Connect(
    const std::string& target, const Credentials& credentials) {
  return ConnectTo({.target = target, .credentials = credentials},
                   /*observer=*/nullptr, Backoff{.waits_for_server = false});
}

// Returns whether stdout is a pipe or socket whose other end is closed.
bool IsReaderGone() {
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) {
  // A command ends in order what it has begun, whoever has gone meanwhile.
  std::signal(SIGPIPE, SIG_IGN);
  // An error is one line, which comes from the server: keys that are no UTF-8
  // would make protobuf write another.
  google::protobuf::SetLogHandler(nullptr);
  const tensorkv::CliEnvironment environment = {
      .connect = tensorkv::Connect,
      .in = std::cin,
      .out = std::cout,
      .err = std::cerr,
      .is_reader_gone = tensorkv::IsReaderGone};
  return tensorkv::RunCli(std::vector<std::string>(argv + 1, argv + argc),
                          environment);
}
