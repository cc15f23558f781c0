// The servers of ours that the data path is compared with.
//
//   reference_server raw|naive ADDRESS
//
// ADDRESS is "127.0.0.1:PORT" or "unix:/path". The line "ready listen=ADDRESS"
// goes to the standard error once the server answers; it serves until it is
// killed. Exit status: 1 if it cannot, 2 for wrong arguments.

#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/naive_server.h"
#include "bench/data_path/peers/raw_server.h"
#include "bench/data_path/sockets/socket.h"

namespace tensorkv::bench {
namespace {

void LogReady(const std::string& address) {
  std::cerr << "reference_server: ready listen=" << address << std::endl;
}

absl::Status RunRaw(const std::string& address) {
  ASSIGN_OR_RETURN(const FileDescriptor listener, ListenOn(address));
  ASSIGN_OR_RETURN(const std::string taken, AddressOf(listener.get()));
  LogReady(taken);
  return ServeRaw(listener.get());
}

absl::Status RunNaive(const std::string& address) {
  ASSIGN_OR_RETURN(const std::unique_ptr<NaiveServer> server,
                   NaiveServer::Start(address));
  LogReady(server->address());
  server->Wait();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const std::string kind = argc == 3 ? argv[1] : "";
  if (kind != "raw" && kind != "naive") {
    std::cerr << "usage: reference_server raw|naive ADDRESS\n";
    return 2;
  }
  const absl::Status status =
      kind == "raw" ? RunRaw(argv[2]) : RunNaive(argv[2]);
  if (!status.ok()) std::cerr << "reference_server: " << status << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
