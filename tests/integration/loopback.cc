#include "tests/integration/loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace tensorkv::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

int ListenOnLoopback(int* port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener, SOMAXCONN), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  *port = ntohs(address.sin_port);
  return listener;
}

int ConnectToLoopback(int port) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (connect(socket_fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0) {
    return socket_fd;
  }
  close(socket_fd);
  return -1;
}

void SendAtOnce(int socket_fd) {
  const int no_delay = 1;
  setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof(no_delay));
}

void CutSocket(int socket_fd) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close(socket_fd);
}

bool WriteAll(int to, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = send(to, data, size, MSG_NOSIGNAL);
    if (written <= 0) return false;
    data += written;
    size -= written;
  }
  return true;
}

}  // namespace tensorkv::testing
