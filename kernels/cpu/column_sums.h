// The states that rules keep per row and per column.

#ifndef TENSORKV_KERNELS_CPU_COLUMN_SUMS_H_
#define TENSORKV_KERNELS_CPU_COLUMN_SUMS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/thread_pool.h"

namespace tensorkv {

// REQUIRES: the value has elements.
int64_t NumColumns(const TensorUpdate& update);

// Updates the states per row and per column of updates whose rules have both,
// in parallel. Elements are read once for both, but of keys with few rows for
// so many columns that the sums of these would not stay in a thread's cache, or
// would leave other threads without work. Allocates up to 1 MiB, which no
// budget counts, and as much for each thread as an update's columns take.
// REQUIRES: they have been checked and have elements.
void UpdateRowsAndColumns(const KernelTable& kernels, ThreadPool& threads,
                          absl::Span<const TensorUpdate* const> updates);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_COLUMN_SUMS_H_
