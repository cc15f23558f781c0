// Divides a batch of updates into parts for threads.

#ifndef TENSORKV_KERNELS_CPU_WORK_PARTITION_H_
#define TENSORKV_KERNELS_CPU_WORK_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"

namespace tensorkv {

// Elements per part, about; those of a mean count once for each contribution.
// At 10 GB/s and 28 bytes an element (Adam in f32) the work of some 90
// microseconds, well above the cost of waking a thread.
inline constexpr int64_t kPartElements = 32 * 1024;

// The cost of one update beside that of its elements, in elements.
inline constexpr int64_t kUpdateOverheadElements = 128;

// A position in a batch: the index of an update, and of an element in it.
struct BatchPosition {
  size_t update = 0;
  int64_t element = 0;

  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

// Divides the batch into parts that cost about the same, and returns their
// ends, in order: part i goes from the end of part i - 1 (part 0 from the
// batch's start) to ends[i]; the last ends with the batch. There is at least
// one. Inside an update parts end at multiples of `granularity` elements.
// REQUIRES: granularity divides kPartElements.
std::vector<BatchPosition> PartitionWork(absl::Span<const TensorUpdate> batch,
                                         int64_t granularity);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_WORK_PARTITION_H_
