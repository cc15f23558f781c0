// Runs a part of one update.

#ifndef TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_
#define TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace tensorkv {

// The elements that are updated at a time in scratch memory: two arrays of
// doubles take half of a 32 KiB first-level cache.
inline constexpr int64_t kBlockElements = 1024;

// Updates elements [begin, end) of `update` on this thread, block by block:
// sums the contributions, runs the rule, rounds. Reads every contribution once
// and allocates nothing, except up to 256 KiB for the middle of contributions,
// and 8 KiB for a weighted mean of integers.
// `sums` are those of all phases (KeySums::Of) if the rule has any; its states
// per row and per column must have been updated already.
// REQUIRES, here and below: `update` has been checked (update_check.h).
void UpdateRange(const KernelTable& kernels, const TensorUpdate& update,
                 int64_t begin, int64_t end, const double* sums = nullptr);

// Sets `out` to the sums of `phase` over the elements [begin, end), one part of
// kSumPartElements or the last. `sums` are those of the phases before.
void SumRange(const KernelTable& kernels, const TensorUpdate& update, int phase,
              const double* sums, int64_t begin, int64_t end, double* out);

// Updates the rule's state per row for the rows [begin, end). If `columns` is
// not null, adds the terms of these rows to it, one sum for each column.
void UpdateRows(const KernelTable& kernels, const TensorUpdate& update,
                int64_t begin, int64_t end, double* columns = nullptr);

// The rows [first_row, end_row) and columns [first_column, end_column) of an
// update.
struct Rectangle {
  int64_t first_row;
  int64_t end_row;
  int64_t first_column;
  int64_t end_column;
};

// Sets `out` to the sums of the columns of `part` over its rows, one sum for
// each of these columns.
void SumColumns(const KernelTable& kernels, const TensorUpdate& update,
                const Rectangle& part, double* out);

// Updates the rule's state per column for the columns [begin, end). `sums` has
// `num_parts` runs of end - begin sums of these columns: one run for each part
// of the rows, in the order of the rows.
void UpdateColumns(const KernelTable& kernels, const TensorUpdate& update,
                   int64_t begin, int64_t end, const double* sums,
                   int64_t num_parts);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_RANGE_UPDATE_H_
