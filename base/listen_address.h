// Addresses to listen on.

#ifndef TENSORKV_BASE_LISTEN_ADDRESS_H_
#define TENSORKV_BASE_LISTEN_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns whether `address` is "host:port" with a number for port, or a Unix
// socket. Resolves no name.
bool IsListenAddress(absl::string_view address);

// Returns whether `address` is "unix:path" or "unix-abstract:name".
bool IsUnixSocket(absl::string_view address);

// Returns whether `address` is a numeric IP address with a port:
// "127.0.0.1:80", "[::1]:80".
bool IsNumericAddress(absl::string_view address);

// Returns whether only processes of this machine can reach `address`: loopback,
// "localhost" or a Unix socket. Resolves no name: any other name is not local.
bool IsLocalAddress(absl::string_view address);

// Returns `address` with `port` in place of its port; a Unix socket as it is.
std::string WithPort(absl::string_view address, int port);

// Return the parts of "host:port" or "[address]:port": the host without its
// brackets, and the port. REQUIRES: `address` has a colon.
absl::string_view HostOf(absl::string_view address);
absl::string_view PortOf(absl::string_view address);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_LISTEN_ADDRESS_H_
