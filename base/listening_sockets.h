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

// Listens on every address that a name means, until it is destroyed; then the
// file of a Unix socket goes too. Movable; not thread-safe.
class ListeningSockets {
 public:
  // `address` is as IsListenAddress wants it. The sockets do not block. The
  // file that a Unix socket has left behind is replaced if nobody listens there
  // any more.
  // Errors: Unavailable, with the system's reason.
  static absl::StatusOr<ListeningSockets> Open(absl::string_view address);

  ListeningSockets(ListeningSockets&&) = default;
  ~ListeningSockets();

  std::vector<int> fds() const;
  // The port that was bound; 0 for a Unix socket.
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

// The next connection of a listening socket, closed when a program is executed;
// -1, with errno, if there is none. Does not block.
int AcceptFrom(int listener);

// Returns the user (uid) at the other end of a connected Unix socket, as the
// kernel tells it; nothing for other sockets.
std::optional<uint32_t> UserOf(int fd);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_LISTENING_SOCKETS_H_
