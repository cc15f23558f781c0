#include "service/server/open_connections.h"

#include <algorithm>

#include "base/file_descriptor.h"

namespace tensorkv {

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
