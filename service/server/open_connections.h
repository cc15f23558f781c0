// How many connections are open whose descriptors somebody else closes.

#ifndef TENSORKV_SERVICE_SERVER_OPEN_CONNECTIONS_H_
#define TENSORKV_SERVICE_SERVER_OPEN_CONNECTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace tensorkv {

// Remembers sockets by descriptor and inode, and finds out which are open by
// asking the system: whoever got a descriptor closes it without a word.
// Thread-safe.
class OpenConnections {
 public:
  // Remembers an open socket. Looks at all that it knows now and then, so that
  // it forgets about as many as it learns.
  void Add(int fd);

  // Looks at all.
  uint64_t Count();

  // Whether fewer than `limit` are open. Looks only where it is not obvious.
  bool HasRoom(uint64_t limit);

 private:
  static constexpr size_t kMinToSweep = 64;

  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  absl::flat_hash_map<int, ino_t> inodes_ ABSL_GUARDED_BY(mutex_);
  size_t size_to_sweep_ ABSL_GUARDED_BY(mutex_) = kMinToSweep;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_OPEN_CONNECTIONS_H_
