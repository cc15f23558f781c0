#include "base/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/strip.h"
#include "base/listen_address.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status SystemError(int error) {
  return absl::UnavailableError(std::strerror(error));
}

absl::Status Listen(int fd, const sockaddr* address, socklen_t size) {
  if (bind(fd, address, size) != 0 || listen(fd, SOMAXCONN) != 0) {
    return SystemError(errno);
  }
  return absl::OkStatus();
}

FileDescriptor OpenSocket(int family) {
  return FileDescriptor(
      socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

void SetPort(addrinfo& address, int port) {
  const in_port_t value = htons(static_cast<in_port_t>(port));
  if (address.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address.ai_addr)->sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in*>(address.ai_addr)->sin_port = value;
  }
}

absl::StatusOr<AddressList> Resolve(const std::string& host,
                                    const std::string& port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const bool is_any = host.empty() || host == "*";
  const int error = getaddrinfo(is_any ? nullptr : host.c_str(), port.c_str(),
                                &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  return AddressList(found, &freeaddrinfo);
}

absl::StatusOr<FileDescriptor> ListenOn(const addrinfo& address) {
  FileDescriptor fd = OpenSocket(address.ai_family);
  if (!fd.is_open()) return SystemError(errno);
  const int on = 1;
  // So that connections that linger do not count. "[::]" and "0.0.0.0" may be
  // had at the same time.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ai_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  RETURN_IF_ERROR(Listen(fd.get(), address.ai_addr, address.ai_addrlen));
  return fd;
}

// Returns whether somebody takes connections there.
bool IsServed(const sockaddr_un& address, socklen_t size) {
  const FileDescriptor fd = OpenSocket(AF_UNIX);
  // Any other error than this one may come from a socket that is served.
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) ==
             0 ||
         errno != ECONNREFUSED;
}

bool IsSocketFile(const std::string& path, struct stat* file) {
  return lstat(path.c_str(), file) == 0 && S_ISSOCK(file->st_mode);
}

}  // namespace

absl::StatusOr<ListeningSockets> ListeningSockets::Open(
    absl::string_view address) {
  ListeningSockets sockets;
  absl::Status status;
  if (absl::ConsumePrefix(&address, "unix-abstract:")) {
    status = sockets.OpenUnix(address, /*is_abstract=*/true);
  } else if (absl::ConsumePrefix(&address, "unix:")) {
    absl::ConsumePrefix(&address, "//");
    status = sockets.OpenUnix(address, /*is_abstract=*/false);
  } else {
    status = sockets.OpenTcp(address);
  }
  RETURN_IF_ERROR(status);
  return sockets;
}

ListeningSockets::~ListeningSockets() {
  struct stat file;
  // Somebody else may have a socket of that name by now.
  if (!path_.empty() && IsSocketFile(path_, &file) && file.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

std::vector<int> ListeningSockets::fds() const {
  std::vector<int> fds;
  for (const FileDescriptor& socket : sockets_) fds.push_back(socket.get());
  return fds;
}

absl::Status ListeningSockets::OpenUnix(absl::string_view path,
                                        bool is_abstract) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return SystemError(ENAMETOOLONG);
  }
  std::memcpy(address.sun_path + (is_abstract ? 1 : 0), path.data(),
              path.size());
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  struct stat file = {};
  const std::string name(path);
  if (!is_abstract && IsSocketFile(name, &file)) {
    if (IsServed(address, size)) return SystemError(EADDRINUSE);
    unlink(name.c_str());
  }
  FileDescriptor fd = OpenSocket(AF_UNIX);
  if (!fd.is_open()) return SystemError(errno);
  RETURN_IF_ERROR(
      Listen(fd.get(), reinterpret_cast<sockaddr*>(&address), size));
  sockets_.push_back(std::move(fd));
  if (!is_abstract && IsSocketFile(name, &file)) {
    path_ = name;
    inode_ = file.st_ino;
  }
  return absl::OkStatus();
}

absl::Status ListeningSockets::OpenTcp(absl::string_view address) {
  ASSIGN_OR_RETURN(const AddressList found,
                   Resolve(std::string(HostOf(address)),
                           std::string(tensorkv::PortOf(address))));
  absl::Status status;
  for (addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    // All addresses have the port that the first one got.
    if (port_ != 0) SetPort(*each, port_);
    absl::StatusOr<FileDescriptor> fd = ListenOn(*each);
    if (fd.ok()) {
      port_ = PortOf(fd->get());
      sockets_.push_back(*std::move(fd));
    } else if (fd.status().message() != std::strerror(EAFNOSUPPORT) &&
               fd.status().message() != std::strerror(EADDRNOTAVAIL)) {
      // A machine without IPv6 knows the name "localhost" for it all the same.
      return fd.status();
    } else {
      status = fd.status();
    }
  }
  return sockets_.empty() ? status : absl::OkStatus();
}

int AcceptFrom(int listener) {
  return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

std::optional<uint32_t> UserOf(int fd) {
  int domain = AF_UNSPEC;
  socklen_t size = sizeof(domain);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  ucred peer = {};
  size = sizeof(peer);
  if (domain != AF_UNIX ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::nullopt;
  }
  return peer.uid;
}

}  // namespace tensorkv
