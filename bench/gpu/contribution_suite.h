// Contributions that an update reads where they lie in page-locked memory,
// beside such that are copied to the device before.

#ifndef TENSORKV_BENCH_GPU_CONTRIBUTION_SUITE_H_
#define TENSORKV_BENCH_GPU_CONTRIBUTION_SUITE_H_

#include "bench/gpu/sizes.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// One update with adam of one f32 tensor, and one of many small tensors, from
// the call to the callback. Servers copy: this says up to which size they
// should not.
Section MeasureContributions(Backend* backend, const Sizes& sizes,
                             RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_CONTRIBUTION_SUITE_H_
