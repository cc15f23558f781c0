// A backend with another choice beside one as servers have it.

#ifndef TENSORKV_BENCH_GPU_VARIANTS_SUITE_H_
#define TENSORKV_BENCH_GPU_VARIANTS_SUITE_H_

#include <string>

#include "bench/gpu/sizes.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// What the other figures measure of updates, of batches of small tensors and of
// a push, by `variant` and in turns by `usual`: above 1 is faster. The rows are
// "variant/NAME/...". Both backends have the same GPU, and outlive the call.
Section MeasureVariant(const std::string& name, Backend* variant,
                       Backend* usual, const Sizes& sizes, RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_VARIANTS_SUITE_H_
