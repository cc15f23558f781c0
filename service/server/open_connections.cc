#include "service/server/open_connections.h"

#include <algorithm>

#include "base/file_descriptor.h"

namespace tensorkv {

void OpenConnections::Add(int fd) {
  MutexLock lock(&mutex_);
  Forget(fd);
  LookAtSome(kLooksPerAdd);
  places_[fd] = sockets_.size();
  sockets_.push_back({fd, InodeOf(fd)});
}

uint64_t OpenConnections::Count() {
  MutexLock lock(&mutex_);
  next_ = 0;
  LookAtSome(sockets_.size());
  return sockets_.size();
}

bool OpenConnections::HasHeadroom(int fd, uint64_t limit) {
  MutexLock lock(&mutex_);
  Forget(fd);
  if (sockets_.size() >= limit) LookAtSome(kLooksPerRefusal);
  return sockets_.size() < limit;
}

uint64_t OpenConnections::num_looks() const {
  MutexLock lock(&mutex_);
  return num_looks_;
}

void OpenConnections::LookAtSome(size_t num_looks) {
  num_looks = std::min(num_looks, sockets_.size());
  num_looks_ += num_looks;
  for (; num_looks > 0; --num_looks) {
    if (next_ >= sockets_.size()) next_ = 0;
    const Socket socket = sockets_[next_];
    if (InodeOf(socket.fd) == socket.inode) {
      ++next_;
    } else {
      Forget(socket.fd);  // the last one comes to its place
    }
  }
}

void OpenConnections::Forget(int fd) {
  const auto found = places_.find(fd);
  if (found == places_.end()) return;
  const size_t place = found->second;
  places_.erase(found);
  if (place + 1 < sockets_.size()) {
    sockets_[place] = sockets_.back();
    places_[sockets_[place].fd] = place;
  }
  sockets_.pop_back();
}

}  // namespace tensorkv
