// What bounds the backend of a GPU: copies that pass through no layer of ours.

#ifndef TENSORKV_BENCH_GPU_PLAIN_COPIES_H_
#define TENSORKV_BENCH_GPU_PLAIN_COPIES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/harness/load.h"

namespace tensorkv::bench::gpu {

enum class CopyDirection { kWithinDevice, kToDevice, kToHost };

// Bytes that a copy of so many bytes moves: the device reads and writes each,
// where both ends are its own.
inline int64_t BytesMovedBy(CopyDirection direction, int64_t size_bytes) {
  return direction == CopyDirection::kWithinDevice ? 2 * size_bytes
                                                   : size_bytes;
}

// One GPU, as its runtime gives it to everybody. Outlives its loads. Not
// thread-safe.
class PlainCopies {
 public:
  virtual ~PlainCopies() = default;

  // What the machine calls its GPU.
  virtual std::string device_name() const = 0;

  // Copies of `size_bytes`, always the same ones, from and to memory of their
  // own; that of the host is page-locked. The copies of a run are queued one
  // behind the other and waited for at the end, so that the device never waits
  // for the host: their latencies are means. A call counts BytesMovedBy.
  // Errors: ResourceExhausted; Internal.
  virtual absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
      CopyDirection direction, int64_t size_bytes) = 0;
};

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_PLAIN_COPIES_H_
