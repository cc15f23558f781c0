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
// allocates nothing, but up to 256 KiB for a mean of them.
// `sums` are those of all phases of a rule that has any (KeySums), and its
// states per row and column are updated already.
// REQUIRES, here and below: `update` has been checked (update_check.h).
void UpdateRange(const KernelTable& kernels, const TensorUpdate& update,
                 int64_t begin, int64_t end, const double* sums = nullptr);

// Sets `out` to the sums of a phase over one part of the elements, [begin,
// end). `sums` are those of the phases before.
void SumRange(const KernelTable& kernels, const TensorUpdate& update, int phase,
              const double* sums, int64_t begin, int64_t end, double* out);

// Updates the rule's state per row of the rows [begin, end). Adds what these
// bring to the sums of all columns to `columns`, if that is not null.
void UpdateRows(const KernelTable& kernels, const TensorUpdate& update,
                int64_t begin, int64_t end, double* columns = nullptr);

// Rows and columns of an update, up to their ends.
struct Rectangle {
  int64_t first_row;
  int64_t end_row;
  int64_t first_column;
  int64_t end_column;
};

// Sets `out` to the sums of the columns over the rows.
void SumColumns(const KernelTable& kernels, const TensorUpdate& update,
                const Rectangle& part, double* out);

// Updates the rule's state per column of the columns [begin, end). `sums` has
// theirs over the first of `num_parts` parts of the rows, behind them those
// over the next.
void UpdateColumns(const KernelTable& kernels, const TensorUpdate& update,
                   int64_t begin, int64_t end, const double* sums,
                   int64_t num_parts);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_
