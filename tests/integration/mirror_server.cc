// A server on a GPU that mirrors with others, as its test says line by line:
//
//   mirror_server NAME FIFO LIBRARY
//
// prints "listening on ADDRESS", and reads from the FIFO, until that ends:
//
//   place VERSION SERVER=ADDRESS ...   these are the servers; prints "placed
//                                      VERSION"
//   count                              prints "exchanges: N, on GPUs: M", all
//                                      that were whole and those of them that
//                                      went from GPU to GPU
//
// NCCL refuses two processes of one host on one GPU, so each says that it is a
// host of its own.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "contract/placement.h"
#include "service/server/server.h"

namespace tensorkv {
namespace {

absl::Status Place(Server& server, const std::string& own,
                   const std::vector<std::string>& words) {
  ClusterPlacement placement = {.cluster = "test"};
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &placement.version)) {
    return absl::InvalidArgumentError("expected a version");
  }
  for (size_t i = 2; i < words.size(); ++i) {
    const std::pair<std::string, std::string> named =
        absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    placement.servers.push_back(
        {.name = named.first, .address = named.second, .live = true});
    placement.owners.push_back(static_cast<uint32_t>(i - 2));
  }
  return server.SetPlacement(placement, own);
}

absl::Status Serve(const std::string& name, const std::string& fifo,
                   const std::string& library) {
  ServerOptions options = {.listen = "127.0.0.1:0"};
  options.device.kind = DeviceChoice::Kind::kCuda;
  options.gpu_memory.bytes = uint64_t{2} << 30;
  options.nccl = library;
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(options);
  if (!server.ok()) return server.status();
  std::cout << "listening on " << (*server)->address() << std::endl;
  std::ifstream lines(fifo);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "place") {
      const absl::Status placed = Place(**server, name, words);
      if (!placed.ok()) return placed;
      std::cout << "placed " << words[1] << std::endl;
    } else {
      const MirrorCounts& counts = (*server)->mirror_counts();
      std::cout << "exchanges: " << counts.attempts_whole
                << ", on GPUs: " << counts.attempts_on_devices << std::endl;
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  setenv("NCCL_HOSTID", argv[1], /*overwrite=*/1);
  setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/1);
  const absl::Status status = tensorkv::Serve(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::cerr << status << std::endl;
  return 1;
}
