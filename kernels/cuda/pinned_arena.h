// Host memory that a device's copies begin and end in, without a copy to or
// from pinned slots.

#ifndef TENSORKV_KERNELS_CUDA_PINNED_ARENA_H_
#define TENSORKV_KERNELS_CUDA_PINNED_ARENA_H_

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_slots.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Page-locked memory in pieces of any size. It grows by blocks up to a bound,
// and keeps them: locking pages, and giving them back, stops the device.
// Thread-safe.
class PinnedArena : public std::enable_shared_from_this<PinnedArena> {
 public:
  // Keeps `pool`, whose device the memory is of.
  static std::shared_ptr<PinnedArena> Create(std::shared_ptr<DevicePool> pool,
                                             size_t max_bytes) {
    return std::shared_ptr<PinnedArena>(
        new PinnedArena(std::move(pool), max_bytes));
  }

  // Returns a buffer of so many bytes, 64-byte aligned and uninitialised, which
  // keeps the arena; null where the bound is reached, no more memory can be
  // locked, or size_bytes is 0. `account`, if any, gets the bytes back when the
  // buffer is destroyed.
  RefPtr<Buffer> Allocate(size_t size_bytes, RefPtr<MemoryAccount> account);

  // Returns whether these bytes are of the arena, or in other memory that the
  // device can read.
  bool CanRead(const char* data, size_t size_bytes) const {
    return Has(data, size_bytes) || pool_->device().CanRead(data);
  }

  // Returns the whole block that the arena has locked around the byte at
  // `data`, all its pieces, not only the buffer that `data` is of; empty if
  // there is none.
  absl::Span<const char> BlockOf(const char* data) const;
  // Returns whether these bytes are all in one block of the arena.
  bool Has(const char* data, size_t size_bytes) const {
    const absl::Span<const char> block = BlockOf(data);
    return !block.empty() && data + size_bytes <= block.data() + block.size();
  }

  // Return the bytes that are locked, and those of them that buffers use.
  size_t size_bytes() const;
  size_t used_bytes() const;

 private:
  class PinnedBuffer;

  PinnedArena(std::shared_ptr<DevicePool> pool, size_t max_bytes)
      : pool_(std::move(pool)), max_bytes_(max_bytes) {}

  // Takes a free piece; null if there is none of that size.
  char* TakeFree(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Locks another block of at least so many bytes, unless there is a free piece
  // by now. Returns false if neither can be had.
  bool Grow(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Free(char* data, size_t size_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddFree(char* data, size_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveFree(std::map<char*, size_t>::iterator it)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<DevicePool> pool_;
  const size_t max_bytes_;

  // Held while pages are locked.
  Mutex growth_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  mutable Mutex mutex_;
  // By their first byte.
  std::map<const char*, PinnedMemory> blocks_ ABSL_GUARDED_BY(mutex_);
  size_t size_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Free pieces, by address and by size. No two of a block are adjacent.
  std::map<char*, size_t> free_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<size_t, char*>> free_by_size_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_PINNED_ARENA_H_
