// Bounds how many streams may be open at once.

#ifndef TENSORKV_SERVICE_RPC_OPEN_STREAMS_H_
#define TENSORKV_SERVICE_RPC_OPEN_STREAMS_H_

#include <atomic>
#include <cstdint>

namespace tensorkv {

// Counts open streams up to a limit. Thread-safe.
class OpenStreams {
 public:
  explicit OpenStreams(uint32_t limit) : limit_(limit) {}

  // Counts one more stream as open, and returns true; or false if `limit` are
  // open already: then Close must not be called for it.
  bool Open() {
    if (num_open_.fetch_add(1, std::memory_order_relaxed) < limit_) return true;
    Close();
    return false;
  }
  void Close() { num_open_.fetch_sub(1, std::memory_order_relaxed); }

  uint32_t limit() const { return limit_; }
  uint32_t num_open() const {
    return num_open_.load(std::memory_order_relaxed);
  }

 private:
  const uint32_t limit_;
  std::atomic<uint32_t> num_open_{0};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_OPEN_STREAMS_H_
