// Wakes a thread that waits in poll().

#ifndef TENSORKV_BASE_WAKE_UP_H_
#define TENSORKV_BASE_WAKE_UP_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/file_descriptor.h"

namespace tensorkv {

// A descriptor that is readable from Set to Clear. Thread-safe.
class WakeUp {
 public:
  WakeUp() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  int fd() const { return event_.get(); }

  // Makes the descriptor readable; no effect if it is.
  void Set() {
    const uint64_t one = 1;
    // Fails only when it is set already.
    [[maybe_unused]] const ssize_t size = write(fd(), &one, sizeof(one));
  }
  // Makes the descriptor not readable until the next Set.
  void Clear() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t size = read(fd(), &count, sizeof(count));
  }

 private:
  const FileDescriptor event_;
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_WAKE_UP_H_
