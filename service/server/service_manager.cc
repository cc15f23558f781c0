#include "service/server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace tensorkv {

absl::Status NotifyServiceManager(absl::string_view socket,
                                  absl::string_view state) {
  if (socket.empty()) return absl::OkStatus();
  sockaddr_un address = {.sun_family = AF_UNIX};
  if (socket.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("NOTIFY_SOCKET: expected less than ",
                     sizeof(address.sun_path), " bytes, got ", socket.size()));
  }
  socket.copy(address.sun_path, socket.size());
  // Names without a file begin with 0, for which @ stands.
  if (socket[0] == '@') address.sun_path[0] = '\0';
  const size_t size = offsetof(sockaddr_un, sun_path) + socket.size();
  const FileDescriptor sender(
      ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, /*protocol=*/0));
  if (sender.is_open() && sendto(sender.get(), state.data(), state.size(),
                                 MSG_NOSIGNAL | MSG_DONTWAIT,
                                 reinterpret_cast<const sockaddr*>(&address),
                                 static_cast<socklen_t>(size)) >= 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("NOTIFY_SOCKET=", socket, ": ", std::strerror(errno)));
}

}  // namespace tensorkv
