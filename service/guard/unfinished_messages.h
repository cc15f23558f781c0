// Bounds what messages take that have not come as a whole.

#ifndef TENSORKV_SERVICE_GUARD_UNFINISHED_MESSAGES_H_
#define TENSORKV_SERVICE_GUARD_UNFINISHED_MESSAGES_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"

namespace tensorkv {

// Adds up, over connections, the bytes of messages that gRPC keeps until the
// rest of them has come. Where the sum is above a bound, SetBytes says so, and
// CutGreediest ends the connections that have the most: of the address that has
// the most, the one that has the most. So whoever sends little is not hit by
// others who send much. Thread-safe.
class UnfinishedMessages {
 public:
  // A connection, as the system knows it. This object shuts it down, but leaves
  // it to its owner to close it.
  struct Connection {
    const int fd;
    const ino_t inode;
    // Names the peer.
    const std::string address;
    std::atomic<uint64_t> bytes = 0;
    // Set by CutGreediest: nothing of it is to be read any more.
    std::atomic<bool> is_cut = false;
  };

  explicit UnfinishedMessages(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Add and remove a connection, which must stay where it is in between.
  void Add(Connection* connection);
  void Remove(Connection* connection);

  // Sets how many such bytes a connection has now. Returns whether these are
  // more than before and all together are too many: then the caller must call
  // CutGreediest.
  bool SetBytes(Connection* connection, uint64_t bytes);

  // Shuts connections down until the others have no more than the bound;
  // returns the addresses of those that it has shut down.
  std::vector<std::string> CutGreediest();

  // Returns how many such bytes open connections have together.
  uint64_t bytes();

 private:
  // Subtracts what connections had that are closed.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the connection to cut next; null if none has any bytes.
  Connection* Greediest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Shuts the connection down, and subtracts what it had.
  void Cut(Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Connection* connection) {
    bytes_ -= connection->bytes.exchange(0);
  }

  const uint64_t max_bytes_;
  // The sum over `connections_`.
  std::atomic<uint64_t> bytes_ = 0;
  Mutex mutex_;
  absl::flat_hash_set<Connection*> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_GUARD_UNFINISHED_MESSAGES_H_
