// Counts open connections whose descriptors somebody else closes.

#ifndef TENSORKV_SERVICE_SERVER_OPEN_CONNECTIONS_H_
#define TENSORKV_SERVICE_SERVER_OPEN_CONNECTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace tensorkv {

// Remembers sockets by descriptor and inode, and finds out which are open by
// asking the system: whoever got a descriptor closes it without a word.
// Thread-safe.
class OpenConnections {
 public:
  // Remembers the open socket `fd`, and checks whether a few others are still
  // open: so it forgets about as many as it learns.
  void Add(int fd);

  // Returns how many are open. Asks the system about each that it remembers.
  uint64_t Count();

  // Returns whether fewer than `limit` sockets are open besides `fd`, a new
  // one, which it does not remember. Checks a bounded number of sockets, so it
  // may return false although others have just ended; but a socket that had the
  // number `fd` before counts as ended.
  bool HasHeadroom(int fd, uint64_t limit);

  // Returns how often it has asked the system about a socket.
  uint64_t num_looks() const;

 private:
  static constexpr size_t kLooksPerAdd = 2;
  static constexpr size_t kLooksPerRefusal = 64;

  // Looks at the next of those that it knows, and forgets what has ended.
  void LookAtSome(size_t num_looks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  // Socket is one that is known; sockets_ has them in no order.
  struct Socket {
    int fd = -1;
    ino_t inode = 0;
  };
  std::vector<Socket> sockets_ ABSL_GUARDED_BY(mutex_);
  // By descriptor, the place among these.
  absl::flat_hash_map<int, size_t> places_ ABSL_GUARDED_BY(mutex_);
  // The socket that is looked at next.
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_looks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_OPEN_CONNECTIONS_H_
