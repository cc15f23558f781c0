// Bounds what one connection has gRPC do before others have their turn.

#ifndef TENSORKV_SERVICE_SERVER_READ_TURN_H_
#define TENSORKV_SERVICE_SERVER_READ_TURN_H_

#include <cstddef>
#include <cstdint>

namespace tensorkv {

// Says how much to read from a connection at once, and when a turn is over:
// with the read that completes the work of a turn, which may bring more. The
// first brings up to 64 KiB and each up to 4 KiB, whatever frames that are; of
// the smallest that begin calls, thousands and some hundreds. What counts is
// the work that the frames make (Http2Scanner::Seen::work), not their bytes:
// large tensors are read as fast as ever. Not thread-safe.
class ReadTurn {
 public:
  // About four calls that begin, or 32 pings, or the 8 MiB of 512 frames.
  static constexpr uint32_t kWork = 512;
  static constexpr size_t kMinBytes = 4 << 10;
  static constexpr size_t kFirstBytes = 64 << 10;
  static constexpr size_t kMaxBytes = 16 << 20;

  // How much to read next: as much as should make the work of a turn.
  size_t max_bytes() const { return max_bytes_; }

  // Counts a read. Returns whether the turn is over with it: then another one
  // begins.
  bool Count(size_t bytes, uint32_t work);

 private:
  size_t max_bytes_ = kFirstBytes;
  uint32_t work_left_ = kWork;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_READ_TURN_H_
