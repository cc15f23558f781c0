// Says how fast a peer must move the bytes that memory is held for.

#ifndef TENSORKV_SERVICE_RPC_FAIR_RATE_H_
#define TENSORKV_SERVICE_RPC_FAIR_RATE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace tensorkv {

// The least rate at which a peer must move the bytes of a call. Memory is held
// for all of them from the start, so the rate is in proportion to their number:
// all of them in 120 stream timeouts (an hour, if the timeout is 30 seconds),
// and at any time so many as that rate makes of the time since the start, less
// a sixth of a timeout and 1 MiB. So 4 GiB without payload are held for 6
// seconds, and 1 GiB may come at 300 kB/s.
class FairRate {
 public:
  // A peer that lags by no more than so many bytes is left to the stream's
  // timeout.
  static constexpr uint64_t kFreeBytes = 1 << 20;

  FairRate(uint64_t total_bytes, absl::Duration stream_timeout)
      : total_bytes_(total_bytes), stream_timeout_(stream_timeout) {}

  // Returns whether there are enough bytes for the rate to matter.
  bool binds() const { return total_bytes_ > kFreeBytes; }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t bytes_per_second() const {
    return static_cast<uint64_t>(
        static_cast<double>(total_bytes_) /
        absl::ToDoubleSeconds(kTimeouts * stream_timeout_));
  }

  // Returns for how long after the start a peer may have moved only
  // `moved_bytes`. REQUIRES: binds().
  absl::Duration TimeFor(uint64_t moved_bytes) const {
    const double share =
        (static_cast<double>(moved_bytes) + static_cast<double>(kFreeBytes)) /
        static_cast<double>(total_bytes_);
    return stream_timeout_ / 6 + kTimeouts * share * stream_timeout_;
  }

 private:
  static constexpr double kTimeouts = 120;

  uint64_t total_bytes_;
  absl::Duration stream_timeout_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_FAIR_RATE_H_
