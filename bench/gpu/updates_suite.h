// Updates by the kernels, beside copies within the device.

#ifndef TENSORKV_BENCH_GPU_UPDATES_SUITE_H_
#define TENSORKV_BENCH_GPU_UPDATES_SUITE_H_

#include "bench/gpu/plain_copies.h"
#include "bench/gpu/sizes.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// Every rule over one large tensor, by the bytes that it moves.
Section MeasureLargeUpdates(Backend* backend, PlainCopies* copies,
                            const Sizes& sizes, RowRunner* runner);

// Many small tensors in one batch: beside a call for each of them, and beside a
// copy that moves as many bytes.
Section MeasureSmallUpdates(Backend* backend, PlainCopies* copies,
                            const Sizes& sizes, RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_UPDATES_SUITE_H_
