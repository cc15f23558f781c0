// One push, step by step, in a store without a network.

#ifndef TENSORKV_BENCH_GPU_PUSH_SUITE_H_
#define TENSORKV_BENCH_GPU_PUSH_SUITE_H_

#include "bench/gpu/sizes.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// How long a push of one f32 key takes in a MemoryTensorStore on `backend`,
// with the rule adam, no call beside it and no reader:
//
//   copy    Backend::CopyToDevice of the contribution
//   update  from the end of that copy, when its last byte is on the device, to
//           the reply, which comes when the new value has been published
//   whole   from the call to the reply
Section MeasurePush(Backend* backend, const Sizes& sizes, RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_PUSH_SUITE_H_
