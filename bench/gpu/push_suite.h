// One push, step by step, in a store without a network.

#ifndef TENSORKV_BENCH_GPU_PUSH_SUITE_H_
#define TENSORKV_BENCH_GPU_PUSH_SUITE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bench/gpu/sizes.h"
#include "bench/harness/load.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// How long a push of one f32 key takes in a MemoryTensorStore on `backend`,
// with the rule adam, no call beside it and no reader:
//
//   copy    of the contribution to the device, from memory as staging gives it
//   update  from the end of that copy, when its last byte is on the device, to
//           the reply, which comes when the new value has been published
//   whole   from the call to the reply
Section MeasurePush(Backend* backend, const Sizes& sizes, RowRunner* runner);

// Pushes of a key of so many bytes, whole. Errors: those of the store.
absl::StatusOr<std::unique_ptr<Load>> PushLoadOf(Backend* backend,
                                                 int64_t bytes);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_PUSH_SUITE_H_
