// Sockets that listen on an address.

#ifndef TENSORKV_BASE_LISTENING_SOCKETS_H_
#define TENSORKV_BASE_LISTENING_SOCKETS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace tensorkv {

// Sockets that listen on every IP address of a name, or on a Unix socket. The
// destructor closes them, and removes the file of a Unix socket. Movable; not
// thread-safe.
class ListeningSockets {
 public:
  // Resolves `address`, which IsListenAddress accepts, binds and listens. Port
  // 0 stands for any free port, the same for all IP addresses. The sockets are
  // non-blocking. Replaces the file of a Unix socket on which nobody listens.
  // Errors: Unavailable, with the system's reason.
  static absl::StatusOr<ListeningSockets> Open(absl::string_view address);

  ListeningSockets(ListeningSockets&&) = default;
  ~ListeningSockets();

  // Returns the descriptors, which stay this object's.
  std::vector<int> fds() const;
  // Returns the port that was bound; 0 for a Unix socket.
  int port() const { return port_; }

 private:
  ListeningSockets() = default;

  absl::Status OpenUnix(absl::string_view path, bool is_abstract);
  absl::Status OpenTcp(absl::string_view address);

  std::vector<FileDescriptor> sockets_;
  int port_ = 0;
  // The file of a Unix socket; empty for other sockets.
  std::string path_;
  ino_t inode_ = 0;
};

// Returns the descriptor of the next connection of a listening socket, which
// the caller owns: non-blocking, and closed when the process executes a
// program. Returns -1, with errno, if there is none. Does not block.
int AcceptFrom(int listener);

// Returns the user id of the process at the other end of a connected Unix
// socket, as the kernel tells it; nothing for other sockets.
std::optional<uint32_t> UserOf(int fd);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_LISTENING_SOCKETS_H_
