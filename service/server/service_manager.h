// Tells systemd, which starts and stops the server, how it is.

#ifndef TENSORKV_SERVICE_SERVER_SERVICE_MANAGER_H_
#define TENSORKV_SERVICE_SERVER_SERVICE_MANAGER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Sends `state`, such as "READY=1", to the socket of systemd, as sd_notify(3)
// says. `socket` is what $NOTIFY_SOCKET has; does nothing if it is empty.
// Errors: InvalidArgument (a name that is too long) · Unavailable.
absl::Status NotifyServiceManager(absl::string_view socket,
                                  absl::string_view state);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVICE_MANAGER_H_
