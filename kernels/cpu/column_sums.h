// Updates the states that rules keep per row and per column.

#ifndef TENSORKV_KERNELS_CPU_COLUMN_SUMS_H_
#define TENSORKV_KERNELS_CPU_COLUMN_SUMS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/thread_pool.h"

namespace tensorkv {

// Returns the elements of one row of the value. REQUIRES: the value has
// elements.
int64_t NumColumns(const TensorUpdate& update);

// Updates the states per row and per column, but no value, of updates whose
// rules have both, in parallel; blocks until all are done. Reads elements once
// for both states, except where a key has so many columns for its rows that
// their sums would not stay in a thread's cache, or would leave other threads
// without work. Allocates up to 1 MiB, which no budget counts, and as much for
// each thread as an update's columns take.
// REQUIRES: the updates have been checked and have elements.
void UpdateRowsAndColumns(const KernelTable& kernels, ThreadPool& threads,
                          absl::Span<const TensorUpdate* const> updates);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_COLUMN_SUMS_H_
