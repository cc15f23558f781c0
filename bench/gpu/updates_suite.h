// Updates by the kernels, beside copies within the device.

#ifndef TENSORKV_BENCH_GPU_UPDATES_SUITE_H_
#define TENSORKV_BENCH_GPU_UPDATES_SUITE_H_

#include "bench/data_path/suites/row_runner.h"
#include "bench/gpu/comparison.h"
#include "bench/gpu/plain_copies.h"
#include "bench/gpu/sizes.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// Every rule over one large tensor, by the bytes that it moves.
ComparisonTable MeasureLargeUpdates(Backend* backend, PlainCopies* copies,
                                    const Sizes& sizes, RowRunner* runner);

// Many small tensors in one batch: beside a call for each of them, and beside a
// copy that moves as many bytes.
ComparisonTable MeasureSmallUpdates(Backend* backend, PlainCopies* copies,
                                    const Sizes& sizes, RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_UPDATES_SUITE_H_
