// Runs a part of one update.

#ifndef TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_
#define TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace tensorkv {

// Elements that pass through scratch memory at a time: two arrays of doubles
// take half of a 32 KiB first-level cache.
inline constexpr int64_t kBlockElements = 1024;

// Updates elements [begin, end) of `update`, block by block: sums the
// contributions, runs the rule, rounds. Reads every contribution once and
// allocates nothing.
// REQUIRES: `update` has been checked (update_check.h).
void UpdateRange(const KernelTable& kernels, const TensorUpdate& update,
                 int64_t begin, int64_t end);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_
