// Copies between page-locked memory and a device.

#ifndef TENSORKV_KERNELS_CUDA_PINNED_COPIES_H_
#define TENSORKV_KERNELS_CUDA_PINNED_COPIES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_arena.h"
#include "kernels/cuda/update_table.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Copies whose ends on the host are page-locked, in one direction. Each is a
// transfer, but many small ones are one kernel, which reads or writes the
// host's memory itself. Not thread-safe. Stays until the device is done with
// its kernels; transfers need nothing of it once they are started.
class PinnedCopies {
 public:
  // Starting a transfer takes about as long as copying so many bytes by a
  // kernel. The caller knows that the ends of smaller copies are page-locked
  // from their first byte to their last, so that a kernel may touch them.
  static constexpr size_t kMinTransferBytes = 64 << 10;

  PinnedCopies() = default;
  // The table of the kernel is in memory of the pool and the arena. Without any
  // there are several kernels, with tables that travel with them.
  PinnedCopies(std::vector<MemoryCopy> copies, DevicePool& pool,
               PinnedArena& arena);

  // Starts transfers, `to_device` or from it, and kernels. Errors: those of the
  // device.
  absl::Status Enqueue(bool to_device, Stream& stream) const;

 private:
  // As many transfers take longer than a kernel and its table.
  static constexpr size_t kMinCopiesOfKernel = 8;

  struct Kernel {
    UpdateTable table;
    // Where the table is: on the device too, or beside the launch.
    RefPtr<Buffer> on_host;
    DeviceMemory on_device;
    std::vector<char> beside;
  };

  // Whether there is memory for its table.
  bool AddKernel(absl::Span<const MemoryCopy> copies, DevicePool& pool,
                 PinnedArena& arena);

  std::vector<MemoryCopy> transfers_;
  std::vector<Kernel> kernels_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_PINNED_COPIES_H_
