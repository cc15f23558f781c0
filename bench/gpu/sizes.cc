#include "bench/gpu/sizes.h"

#include <algorithm>

namespace tensorkv::bench::gpu {
namespace {

// A value, its eight contributions, both ends of the copy beside it, and one
// for what the memory's pool keeps of the row before.
constexpr uint64_t kTensorsAtOnce = 12;

constexpr int64_t kLeastElements = 1 << 10;

bool Fits(uint64_t free_bytes, const Sizes& sizes) {
  const uint64_t update = sizes.update_elements * sizeof(float);
  const uint64_t callers = *std::max_element(sizes.staging_callers.begin(),
                                             sizes.staging_callers.end());
  const uint64_t copies = (callers + 1) * sizes.staged_bytes;
  // The pool keeps what the updates have had.
  return kTensorsAtOnce * update + copies <= free_bytes;
}

}  // namespace

Sizes QuickSizes() {
  Sizes sizes;
  sizes.update_elements /= 16;
  sizes.staged_bytes /= 4;
  sizes.messages_in_flight = {1};
  return sizes;
}

Sizes FitTo(uint64_t free_bytes, Sizes sizes) {
  while (sizes.update_elements > kLeastElements && !Fits(free_bytes, sizes)) {
    sizes.update_elements /= 2;
    sizes.staged_bytes = std::max<int64_t>(sizes.staged_bytes / 2, 1 << 20);
  }
  return sizes;
}

}  // namespace tensorkv::bench::gpu
