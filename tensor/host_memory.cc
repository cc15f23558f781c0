#include "tensor/host_memory.h"

#include <sys/mman.h>

#include <new>

namespace tensorkv {
namespace {

constexpr size_t kHugePageBytes = 2 << 20;
// For smaller buffers they would waste too much of their end.
constexpr size_t kMinBytesForHugePages = 8 << 20;

std::align_val_t AlignmentOf(size_t size_bytes) {
  return std::align_val_t(size_bytes < kMinBytesForHugePages
                              ? kHostMemoryAlignment
                              : kHugePageBytes);
}

}  // namespace

void* AllocateHostMemory(size_t size_bytes) {
  void* const memory =
      ::operator new(size_bytes, AlignmentOf(size_bytes), std::nothrow);
  if (memory != nullptr && size_bytes >= kMinBytesForHugePages) {
    // Without those at the end, which may be of somebody else's pages. Where
    // this fails there are no huge pages, and ordinary ones do.
    (void)madvise(memory, size_bytes / kHugePageBytes * kHugePageBytes,
                  MADV_HUGEPAGE);
  }
  return memory;
}

void FreeHostMemory(void* memory, size_t size_bytes) {
  ::operator delete(memory, AlignmentOf(size_bytes));
}

}  // namespace tensorkv
