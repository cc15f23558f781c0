// How much the benchmark of a GPU moves.

#ifndef TENSORKV_BENCH_GPU_SIZES_H_
#define TENSORKV_BENCH_GPU_SIZES_H_

#include <cstdint>
#include <vector>

namespace tensorkv::bench::gpu {

// The defaults are those of a full run, which the goals are about.
struct Sizes {
  // Elements of a large tensor, of which every update has one: 1 GiB of f32.
  int64_t update_elements = int64_t{256} << 20;

  // Tensors of a batch.
  int64_t num_small = 10'000;
  int64_t small_bytes = 4 << 10;

  // A large copy between host and device, and how many are made at once.
  int64_t staged_bytes = int64_t{256} << 20;
  std::vector<int> staging_callers = {1, 8};

  // Contributions that a kernel reads from the host's memory.
  std::vector<int64_t> read_in_place_bytes = {4 << 10, 64 << 10, 256 << 10,
                                              1 << 20, 4 << 20};

  // The key whose push is looked at step by step.
  int64_t pushed_bytes = 2 << 20;

  // Tensors that pass through gRPC, and calls under way at once.
  std::vector<int64_t> message_bytes = {1 << 20, 16 << 20, 64 << 20};
  std::vector<int> messages_in_flight = {1, 16};
};

// Large tensors are a sixteenth of those of a full run or a quarter, and fewer
// calls are under way.
Sizes QuickSizes();

// `sizes` with large tensors so small that what is in use at once, the copy
// that it is compared with included, fits into a device.
Sizes FitTo(uint64_t free_bytes, Sizes sizes);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_SIZES_H_
