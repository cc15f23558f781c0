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
// `sums` are those of all phases of a rule that has any (KeySums), and its
// states per row and column are updated already.
// REQUIRES, here and below: `update` has been checked (update_check.h).
void UpdateRange(const KernelTable& kernels, const TensorUpdate& update,
                 int64_t begin, int64_t end, const double* sums = nullptr);

// Sets `out` to the sums of a phase over one part of the elements, [begin,
// end). `sums` are those of the phases before.
void SumRange(const KernelTable& kernels, const TensorUpdate& update, int phase,
              const double* sums, int64_t begin, int64_t end, double* out);

// Updates the rule's state per row of the rows [begin, end).
void UpdateRows(const KernelTable& kernels, const TensorUpdate& update,
                int64_t begin, int64_t end);

// The same of columns.
void UpdateColumns(const KernelTable& kernels, const TensorUpdate& update,
                   int64_t begin, int64_t end);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_
