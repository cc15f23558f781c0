// Addresses to listen on.

#ifndef TENSORKV_BASE_LISTEN_ADDRESS_H_
#define TENSORKV_BASE_LISTEN_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Whether `address` is "host:port" with a number for port, or a Unix socket.
bool IsListenAddress(absl::string_view address);

// Whether `address` is "unix:path" or "unix-abstract:name".
bool IsUnixSocket(absl::string_view address);

// Whether `address` is a numeric IP address with a port: "127.0.0.1:80",
// "[::1]:80".
bool IsNumericAddress(absl::string_view address);

// Whether only processes of this machine can reach `address`: loopback,
// "localhost" or a Unix socket. Anything it cannot tell is not local.
bool IsLocalAddress(absl::string_view address);

// `address`, its port replaced by the one that was bound; a Unix socket as it
// is.
std::string WithPort(absl::string_view address, int port);

// The parts of "host:port" and "[address]:port".
absl::string_view HostOf(absl::string_view address);
absl::string_view PortOf(absl::string_view address);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_LISTEN_ADDRESS_H_
