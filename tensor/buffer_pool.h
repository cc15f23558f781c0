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

// Allocates buffers, and recycles the memory of large ones. The first touch of
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

  // Keeps at most `max_idle_bytes` of idle memory, which no buffer uses.
  // `on_idle`, where set, is called each time that there is idle memory where
  // there was none, on the thread that has dropped a buffer: it must not block,
  // nor use the pool.
  explicit BufferPool(size_t max_idle_bytes, std::function<void()> on_idle = {})
      : max_idle_bytes_(max_idle_bytes), on_idle_(std::move(on_idle)) {}
  ~BufferPool() override;

  // Returns a buffer of uninitialised memory, 64-byte aligned. `account` is as
  // for HostBuffer::Allocate.
  // Errors: ResourceExhausted if the system has no memory left.
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account = nullptr);

  // Gives the memory back to the system that has been idle since the last call
  // of TrimUnused: what a steady load uses again and again stays, what a burst
  // has left goes. Returns the bytes that are idle then.
  size_t TrimUnused();

  // Returns the bytes of idle memory.
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

  // Removes idle memory of that class from the pool and returns it; null if
  // there is none.
  char* TakeIdle(size_t class_bytes);
  void Return(Memory memory);
  // Moves the memory that has been idle longest from idle_ to `removed`.
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
