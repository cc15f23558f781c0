// Which kernel tables this CPU can run.

#ifndef TENSORKV_KERNELS_CPU_SUPPORTED_KERNELS_H_
#define TENSORKV_KERNELS_CPU_SUPPORTED_KERNELS_H_

#include <vector>

#include "kernels/cpu/kernel_table.h"

namespace tensorkv {

// Returns the tables that this CPU can run, from the portable one to the
// fastest. Thread-safe.
std::vector<const KernelTable*> SupportedKernels();

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_SUPPORTED_KERNELS_H_
