#include "bench/data_path/peers/connection_count.h"

#include <arpa/inet.h>
// Not netinet/tcp.h, whose tcp_info lacks the counters.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::bench {
namespace {

// What a connection moved so far, by its descriptor.
using ByteCounts = std::map<int, uint64_t>;

// The port, or 0 for what is no TCP connection.
int PeerPort(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return 0;
  }
  // gRPC connects to IPv4 addresses from IPv6 sockets.
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
  }
  if (storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  }
  return 0;
}

uint64_t MovedBytes(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_sent + info.tcpi_bytes_received;
}

ByteCounts CountBytes(int port) {
  ByteCounts counts;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &fd)) continue;
    if (PeerPort(fd) == port) counts[fd] = MovedBytes(fd);
  }
  return counts;
}

}  // namespace

absl::StatusOr<int> CountBusyConnections(
    const std::string& address, absl::FunctionRef<absl::Status()> calls) {
  const std::string port_text = address.substr(address.rfind(':') + 1);
  int port = 0;
  if (!absl::SimpleAtoi(port_text, &port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected an address with a port, got ", address));
  }
  ByteCounts before = CountBytes(port);
  RETURN_IF_ERROR(calls());
  ByteCounts moved = CountBytes(port);
  uint64_t most = 1;
  for (auto& [fd, count] : moved) {
    count -= std::min(count, before[fd]);
    most = std::max(most, count);
  }
  const auto busy = std::count_if(
      moved.begin(), moved.end(),
      [most](const auto& count) { return count.second * 10 >= most; });
  return std::max(static_cast<int>(busy), 1);
}

}  // namespace tensorkv::bench
