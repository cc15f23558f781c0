// Counts what the exchange of a server has done so far.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_COUNTS_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace tensorkv {

// Counts rise, each by itself. Thread-safe.
struct MirrorCounts {
  // Count the rounds whose sum this server has got, and those that have failed.
  std::atomic<uint64_t> rounds_summed = 0;
  std::atomic<uint64_t> rounds_failed = 0;
  // Count the attempts that have begun to run here: those that have brought all
  // their sums, and those that have brought none.
  std::atomic<uint64_t> attempts_whole = 0;
  std::atomic<uint64_t> attempts_failed = 0;
  // Counts the whole ones whose ranges went from device to device.
  std::atomic<uint64_t> attempts_on_devices = 0;
  // Add up how long the whole attempts took, and the bytes of their ranges.
  std::atomic<uint64_t> nanoseconds = 0;
  std::atomic<uint64_t> sent_bytes = 0;
  std::atomic<uint64_t> received_bytes = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_COUNTS_H_
