// A server on the GPU beside the same server on the CPU.

#ifndef TENSORKV_BENCH_GPU_SERVER_SUITE_H_
#define TENSORKV_BENCH_GPU_SERVER_SUITE_H_

#include "bench/data_path/peers/peer.h"
#include "bench/gpu/sizes.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench::gpu {

// Pushes and pulls of one f32 key through gRPC, with the rule assign.
Section MeasureServers(const Peer& on_gpu, const Peer& on_cpu,
                       const Sizes& sizes, RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_SERVER_SUITE_H_
