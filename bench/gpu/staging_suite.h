// Copies between the host and the device, beside those of the runtime.

#ifndef TENSORKV_BENCH_GPU_STAGING_SUITE_H_
#define TENSORKV_BENCH_GPU_STAGING_SUITE_H_

#include "bench/gpu/plain_copies.h"
#include "bench/gpu/sizes.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// Backend::CopyToDevice and CopyToHost, from and to ordinary memory of the
// host: a large tensor, by one caller and by several, each of which has one;
// and many small tensors in one call.
Section MeasureStaging(Backend* backend, PlainCopies* copies,
                       const Sizes& sizes, RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_STAGING_SUITE_H_
