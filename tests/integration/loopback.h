// Sockets of 127.0.0.1, for proxies.

#ifndef TENSORKV_TESTS_INTEGRATION_LOOPBACK_H_
#define TENSORKV_TESTS_INTEGRATION_LOOPBACK_H_

#include <cstddef>

namespace tensorkv::testing {

// Listens on a port that was free, which is put into `port`.
int ListenOnLoopback(int* port);

// -1 if nobody listens.
int ConnectToLoopback(int port);

// Sends what is written at once.
void SendAtOnce(int socket_fd);

// Nothing that is under way arrives after this.
void CutSocket(int socket_fd);

bool WriteAll(int to, const char* data, size_t size);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_LOOPBACK_H_
