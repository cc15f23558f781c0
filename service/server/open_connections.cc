#include "service/server/open_connections.h"

#include <sys/stat.h>

#include <algorithm>

namespace tensorkv {
namespace {

// 0 if the descriptor is not open.
ino_t InodeOf(int fd) {
  struct stat file;
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

}  // namespace

void OpenConnections::Add(int fd) {
  MutexLock lock(&mutex_);
  inodes_[fd] = InodeOf(fd);
  if (inodes_.size() < size_to_sweep_) return;
  Sweep();
  size_to_sweep_ = std::max(kMinToSweep, 2 * inodes_.size());
}

uint64_t OpenConnections::Count() {
  MutexLock lock(&mutex_);
  Sweep();
  return inodes_.size();
}

bool OpenConnections::HasRoom(uint64_t limit) {
  MutexLock lock(&mutex_);
  if (inodes_.size() >= limit) Sweep();
  return inodes_.size() < limit;
}

void OpenConnections::Sweep() {
  absl::erase_if(inodes_, [](const auto& socket) {
    return InodeOf(socket.first) != socket.second;
  });
}

}  // namespace tensorkv
