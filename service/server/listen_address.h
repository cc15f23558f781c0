// Addresses to listen on.

#ifndef TENSORKV_SERVICE_SERVER_LISTEN_ADDRESS_H_
#define TENSORKV_SERVICE_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Whether `address` is "host:port" with a number for port, or a Unix socket.
bool IsListenAddress(absl::string_view address);

// Whether `address` is a numeric IP address with a port: "127.0.0.1:80",
// "[::1]:80".
bool IsNumericAddress(absl::string_view address);

// Whether only processes of this machine can reach `address`: loopback,
// "localhost" or a Unix socket. Anything it cannot tell is not local.
bool IsLocalAddress(absl::string_view address);

// `address`, its port replaced by the one that was bound; a Unix socket as it
// is.
std::string WithPort(absl::string_view address, int port);

// Why nobody can listen on `address`: tries, and says what the system says.
// Empty if nothing speaks against it, or if the address is a name.
std::string ListenFailure(absl::string_view address);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_LISTEN_ADDRESS_H_
