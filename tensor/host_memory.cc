#include "tensor/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace tensorkv {
namespace {

constexpr std::align_val_t kAlignment{kHostMemoryAlignment};

constexpr size_t kHugePageBytes = 2 << 20;
// Smaller memory would gain little.
constexpr size_t kMinBytesForHugePages = 8 << 20;

// Takes the huge pages that lie whole within the memory. It is not aligned to
// them: an allocator would look for more than it is asked for, and pass over
// what memory of the same size has left.
void UseHugePages(void* memory, size_t size_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (begin + kHugePageBytes - 1) & -kHugePageBytes;
  const uintptr_t end = (begin + size_bytes) & -kHugePageBytes;
  // Where this fails there are no huge pages, and ordinary ones do.
  (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

}  // namespace

void* AllocateHostMemory(size_t size_bytes) {
  void* const memory = ::operator new(size_bytes, kAlignment, std::nothrow);
  if (memory != nullptr && size_bytes >= kMinBytesForHugePages) {
    UseHugePages(memory, size_bytes);
  }
  return memory;
}

void FreeHostMemory(void* memory) { ::operator delete(memory, kAlignment); }

}  // namespace tensorkv
