// The rows of gpu_benchmark; docs/gpu.md says what they mean.

#ifndef TENSORKV_BENCH_GPU_ROWS_H_
#define TENSORKV_BENCH_GPU_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/harness/rows.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// How much is moved. The defaults are those of a full run, which the goals are
// about.
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
};

// Returns sizes with which what is in use at once, the copy that it is compared
// with included, fits into a device. Of a quick run large tensors are a
// sixteenth or a quarter.
Sizes SizesFor(uint64_t free_bytes, bool is_quick);

enum class CopyDirection { kWithinDevice, kToDevice, kToHost };

// Makes copies of so many bytes that pass through no layer of ours: what bounds
// the backend. They are always the same ones, from and to memory of their own;
// that of the host is page-locked. The copies of a trial are queued one behind
// the other and waited for at the end, so that the device never waits for the
// host. A copy within the device moves each byte twice.
// Errors: ResourceExhausted; Internal.
using MakeCopy =
    std::function<absl::StatusOr<Load>(CopyDirection direction, int64_t bytes)>;

// The arguments outlive the rows.

// Returns rows of every rule over one large tensor by the bytes that it moves,
// and many small tensors in one batch, beside copies within the device.
std::vector<Row> UpdateRows(Backend* backend, const MakeCopy& copy,
                            const Sizes& sizes);

// Returns rows of one update with adam, from the call to the callback, whose
// contributions it reads where they lie in page-locked memory, beside such that
// are copied to the device before.
std::vector<Row> ContributionRows(Backend* backend, const Sizes& sizes);

// Returns rows of a push of one f32 key in a MemoryTensorStore on `backend`,
// with the rule adam, no call beside it and no reader:
//
//   copy    of the contribution to the device, from memory as staging gives it
//   update  from the end of that copy, when its last byte is on the device, to
//           the reply, which comes when the new value has been published
//   whole   from the call to the reply
std::vector<Row> PushRows(Backend* backend, const Sizes& sizes);

// Copies between the host's memory for calls and the device: a large tensor, by
// one caller and by several, each of which has one; and many small tensors in
// one call.
std::vector<Row> StagingRows(Backend* backend, const MakeCopy& copy,
                             const Sizes& sizes);

// What the other rows measure of updates, of batches of small tensors and of a
// push, by a variant and in turns by what servers have: above 1 is faster. The
// rows are "variant/NAME/...".
using GetBackend = std::function<absl::StatusOr<Backend*>()>;
std::vector<Row> VariantRows(const std::string& name, const GetBackend& variant,
                             Backend* usual, const Sizes& sizes);

// Returns a load of pushes of a key of so many bytes, whole. Errors: those of
// the store.
absl::StatusOr<Load> PushLoad(Backend* backend, int64_t bytes);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_ROWS_H_
