// Stream sockets of this machine.

#ifndef TENSORKV_BENCH_DATA_PATH_SOCKETS_SOCKET_H_
#define TENSORKV_BENCH_DATA_PATH_SOCKETS_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorkv::bench {

// A file descriptor, closed with this object. Movable.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }

 private:
  int fd_;
};

// Addresses are "127.0.0.1:PORT" or "unix:/path"; the port 0 takes a free one.
// Errors of all: InvalidArgument for an address of another form, otherwise
// Unavailable with the system's reason.

// A connection without Nagle's delay. Receiving ends with an error after half
// a minute of silence.
absl::StatusOr<Socket> ConnectTo(const std::string& address);

absl::StatusOr<Socket> ListenOn(const std::string& address);

// The next connection that a listening socket gets, as ConnectTo's.
absl::StatusOr<Socket> AcceptFrom(const Socket& listener);

// Where a listening socket listens.
absl::StatusOr<std::string> AddressOf(const Socket& listener);

// An address that nobody listens on at the moment.
absl::StatusOr<std::string> FreeLoopbackAddress();

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SOCKETS_SOCKET_H_
