// Host memory for tensors that come and go.

#ifndef TENSORKV_TENSOR_BUFFER_POOL_H_
#define TENSORKV_TENSOR_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Gives memory out again that large buffers have returned. The first touch of
// fresh pages costs several times as much as copying into them: 64 MiB take
// 80 ms and more instead of 12 ms (measured on a virtual machine with two
// cores of an AMD EPYC).
//
// Sizes are rounded up to classes an eighth apart, so that memory fits buffers
// of about the same size. Small buffers are left to the C++ allocator, which
// recycles them well. Thread-safe; lives as long as its buffers.
//
// Invariants:
//  1. idle_ is in the order in which memory came back; by_class_ has the same
//     memory, each class in that order.
//  2. idle_bytes_ is the sum of idle_, and at most max_idle_bytes_.
//  3. Memory is in idle_ or behind one buffer, never both.
class BufferPool : public RefCounted {
 public:
  // Buffers with less come from the C++ allocator.
  static constexpr size_t kMinPooledBytes = 64 << 10;

  // Keeps at most `max_idle_bytes` that no buffer uses. `on_idle`, where set,
  // is told each time that there is such memory where there was none, on the
  // thread that lets go of a buffer: it should not block, nor use the pool.
  explicit BufferPool(size_t max_idle_bytes, std::function<void()> on_idle = {})
      : max_idle_bytes_(max_idle_bytes), on_idle_(std::move(on_idle)) {}
  ~BufferPool() override;

  // Uninitialised memory, 64-byte aligned. `account` as for
  // HostBuffer::Allocate.
  // Errors: ResourceExhausted if the system has no memory left.
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account = nullptr);

  // Gives memory back to the system that no buffer has used since the last call
  // of this: what a steady load uses again and again stays, what a burst has
  // left goes. Returns how much memory no buffer uses then.
  size_t TrimUnused();

  // How much memory no buffer uses.
  size_t idle_bytes() const;

 private:
  friend class PooledBuffer;

  struct Memory {
    char* data;
    size_t class_bytes;
    // How often TrimUnused had been called when it came back.
    uint64_t num_trims = 0;
  };
  using MemoryList = std::list<Memory>;

  // Memory of that class that no buffer uses; null if there is none.
  char* Take(size_t class_bytes);
  void Return(Memory memory);
  // Takes the memory that came back first out of idle_, and adds it to
  // `removed`.
  void RemoveOldest(MemoryList& removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Delete(const MemoryList& list);

  const size_t max_idle_bytes_;
  const std::function<void()> on_idle_;

  mutable Mutex mutex_;
  size_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_trims_ ABSL_GUARDED_BY(mutex_) = 0;
  MemoryList idle_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<size_t, std::deque<MemoryList::iterator>> by_class_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_BUFFER_POOL_H_
