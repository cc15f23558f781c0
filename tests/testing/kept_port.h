// A port of 127.0.0.1 at which nobody answers.

#ifndef TENSORKV_TESTS_TESTING_KEPT_PORT_H_
#define TENSORKV_TESTS_TESTING_KEPT_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace tensorkv::testing {

// Keeps the port that a server had, so that no server of another test gets it:
// whoever connects is refused.
class KeptPort {
 public:
  explicit KeptPort(int port)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    // Connections of the former server may linger.
    const int reuse = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
  }
  ~KeptPort() { close(socket_); }
  KeptPort(const KeptPort&) = delete;
  KeptPort& operator=(const KeptPort&) = delete;

 private:
  const int socket_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_KEPT_PORT_H_
