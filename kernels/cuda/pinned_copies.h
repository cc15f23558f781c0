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

// Copies in one direction whose ends on the host are page-locked. Each is a
// transfer, but many small ones are one kernel, which reads or writes the
// host's memory itself. Not thread-safe. The object must stay until the device
// is done with the kernels; transfers need nothing of it once started.
class PinnedCopies {
 public:
  // Starting a transfer takes about as long as copying so many bytes by a
  // kernel. REQUIRES: the host's ends of smaller copies are memory of the
  // arena, so that a kernel may touch them.
  static constexpr size_t kMinTransferBytes = 64 << 10;

  PinnedCopies() = default;
  // Allocates the kernel's table in memory of the pool and the arena; where
  // these have none, makes several kernels, with tables that travel with them.
  // Starts nothing.
  PinnedCopies(std::vector<MemoryCopy> copies, DevicePool& pool,
               PinnedArena& arena);

  // Puts the transfers, to the device or from it, and the kernels on the
  // stream. Errors: those of the device; part of the copies may be on the
  // stream then.
  absl::Status Enqueue(bool to_device, Stream& stream) const;

 private:
  // So many small transfers take longer than a kernel and its table.
  static constexpr size_t kMinCopiesOfKernel = 8;

  struct Kernel {
    UpdateTable table;
    // Where the table is: on the device too, or beside the launch.
    RefPtr<Buffer> on_host;
    DeviceMemory on_device;
    std::vector<char> beside;
  };

  // Adds a kernel for these copies. Returns false if there is no memory for its
  // table.
  bool AddKernel(absl::Span<const MemoryCopy> copies, DevicePool& pool,
                 PinnedArena& arena);

  std::vector<MemoryCopy> transfers_;
  std::vector<Kernel> kernels_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_PINNED_COPIES_H_
