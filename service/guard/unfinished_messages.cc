#include "service/guard/unfinished_messages.h"

#include <sys/socket.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace tensorkv {

void UnfinishedMessages::Add(Connection* connection) {
  MutexLock lock(&mutex_);
  connections_.insert(connection);
}

void UnfinishedMessages::Remove(Connection* connection) {
  MutexLock lock(&mutex_);
  Forget(connection);
  connections_.erase(connection);
}

bool UnfinishedMessages::SetBytes(Connection* connection, uint64_t bytes) {
  const uint64_t former = connection->bytes.exchange(bytes);
  if (bytes == former) return false;
  // The difference wraps where it is negative, and so does the sum.
  const uint64_t difference = bytes - former;
  return (bytes_ += difference) > max_bytes_ && bytes > former;
}

std::vector<std::string> UnfinishedMessages::CutGreediest() {
  std::vector<std::string> addresses;
  MutexLock lock(&mutex_);
  if (bytes_ > max_bytes_) Sweep();
  while (bytes_ > max_bytes_) {
    Connection* const connection = Greediest();
    if (connection == nullptr) break;
    addresses.push_back(connection->address);
    Cut(connection);
  }
  return addresses;
}

uint64_t UnfinishedMessages::bytes() {
  MutexLock lock(&mutex_);
  Sweep();
  return bytes_;
}

void UnfinishedMessages::Sweep() {
  for (Connection* const each : connections_) {
    if (each->bytes > 0 && InodeOf(each->fd) != each->inode) Forget(each);
  }
}

UnfinishedMessages::Connection* UnfinishedMessages::Greediest() {
  absl::flat_hash_map<absl::string_view, uint64_t> by_address;
  for (const Connection* each : connections_) {
    by_address[each->address] += each->bytes;
  }
  Connection* greediest = nullptr;
  const auto is_greedier = [&by_address](const Connection* a,
                                         const Connection* b) {
    const uint64_t all_a = by_address[a->address];
    const uint64_t all_b = by_address[b->address];
    return all_a != all_b ? all_a > all_b : a->bytes > b->bytes;
  };
  for (Connection* const each : connections_) {
    if (each->bytes == 0) continue;
    if (greediest == nullptr || is_greedier(each, greediest)) greediest = each;
  }
  return greediest;
}

// gRPC frees what it has of the connection when it sees its end. If gRPC closes
// it at this moment and the number becomes another's, that one ends too, and
// its client makes a new one.
void UnfinishedMessages::Cut(Connection* connection) {
  connection->is_cut = true;
  Forget(connection);
  if (InodeOf(connection->fd) != connection->inode) return;
  shutdown(connection->fd, SHUT_RDWR);
}

}  // namespace tensorkv
