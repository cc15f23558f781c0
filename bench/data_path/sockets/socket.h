// Stream sockets of this machine.

#ifndef TENSORKV_BENCH_DATA_PATH_SOCKETS_SOCKET_H_
#define TENSORKV_BENCH_DATA_PATH_SOCKETS_SOCKET_H_

#include <sys/uio.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace tensorkv::bench {

// Addresses are "127.0.0.1:PORT" or "unix:/path"; the port 0 takes a free one.
// Errors of all: InvalidArgument for an address of another form, otherwise
// Unavailable with the system's reason.

// A connection without Nagle's delay. Receiving ends with an error after half
// a minute of silence.
absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address);

absl::StatusOr<FileDescriptor> ListenOn(const std::string& address);

// The next connection that a listening socket gets, without Nagle's delay. It
// may be silent for as long as it likes.
absl::StatusOr<FileDescriptor> AcceptFrom(int listener);

// Where a listening socket listens.
absl::StatusOr<std::string> AddressOf(int listener);

// An address that nobody listens on at the moment.
absl::StatusOr<std::string> FreeLoopbackAddress();

// Send and receive all bytes of `vectors`, one vector after the other.
absl::Status SendAll(int connection, std::vector<iovec> vectors);
absl::Status ReceiveAll(int connection, std::vector<iovec> vectors);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SOCKETS_SOCKET_H_
