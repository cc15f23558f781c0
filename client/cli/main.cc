// tensorkv: the command line client.

#include <iostream>
#include <string>
#include <vector>

#include "client/cli/health_check.h"
#include "client/cli/run_cli.h"
#include "client/grpc_connection.h"
#include "google/protobuf/stubs/logging.h"

int main(int argc, char** argv) {
  // An error is one line, which comes from the server: keys that are no UTF-8
  // would make protobuf write another.
  google::protobuf::SetLogHandler(nullptr);
  // No retries: a person sees at once that no server answers.
  const tensorkv::CliEnvironment environment = {
      .connect =
          [](const std::string& target) {
            return tensorkv::GrpcConnection::Create({.target = target});
          },
      .check_health = tensorkv::CheckHealth,
      .in = std::cin,
      .out = std::cout,
      .err = std::cerr};
  return tensorkv::RunCli(std::vector<std::string>(argv + 1, argv + argc),
                          environment);
}
