#include "tests/integration/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace tensorkv::testing {
namespace {

// -1 if nobody listens there.
int ConnectTo(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
    return fd;
  close(fd);
  return -1;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t num_bytes;
  while ((num_bytes = read(fd, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, num_bytes);
  }
  return text;
}

}  // namespace

HttpReply HttpGet(int port, const std::string& path) {
  const int fd = ConnectTo(port);
  if (fd < 0) return {};
  // 1.0: the server closes the connection after its reply.
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  if (write(fd, request.data(), request.size()) < 0) return {};
  const std::string reply = ReadAll(fd);
  close(fd);
  const size_t code = reply.find(' ');
  const size_t body = reply.find("\r\n\r\n");
  if (code == std::string::npos || body == std::string::npos) return {};
  return {.code = std::atoi(reply.c_str() + code),
          .body = reply.substr(body + 4)};
}

}  // namespace tensorkv::testing
