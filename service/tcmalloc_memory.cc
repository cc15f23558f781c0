#include <sys/mman.h>

#include <algorithm>
#include <cstddef>

#include "gperftools/malloc_extension.h"
#include "service/allocator_memory.h"

namespace tensorkv {
namespace {

class TcmallocMemory final : public FreeMemory {
 public:
  size_t bytes() const override {
    size_t bytes = 0;
    MallocExtension::instance()->GetNumericProperty(
        "tcmalloc.pageheap_free_bytes", &bytes);
    return bytes;
  }
  void Release(size_t bytes) override {
    MallocExtension::instance()->ReleaseToSystem(bytes);
  }
};

constexpr size_t kHugePageBytes = 2 << 20;
// Says how much is taken from the system at once.
constexpr size_t kGrowthBytes = 4 * kHugePageBytes;

class HugePages final : public SysAllocator {
 public:
  explicit HugePages(SysAllocator* system) : system_(*system) {}

  void* Alloc(size_t size, size_t* actual_size, size_t alignment) override {
    size_t bytes = (size + kGrowthBytes - 1) / kGrowthBytes * kGrowthBytes;
    void* const memory =
        system_.Alloc(bytes, &bytes, std::max(alignment, kHugePageBytes));
    // There may be no memory for so much.
    if (memory == nullptr) return system_.Alloc(size, actual_size, alignment);
    // Where this fails there are no huge pages, and ordinary ones do.
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    if (actual_size != nullptr) *actual_size = bytes;
    return memory;
  }

  SysAllocator& system() { return system_; }

 private:
  SysAllocator& system_;
};

// Lives as long as the process: the allocator may be on its way into it.
HugePages& SystemInHugePages() {
  static auto* const pages =
      new HugePages(MallocExtension::instance()->GetSystemAllocator());
  return *pages;
}

}  // namespace

GrowthInHugePages::GrowthInHugePages() {
  MallocExtension::instance()->SetSystemAllocator(&SystemInHugePages());
}

GrowthInHugePages::~GrowthInHugePages() {
  MallocExtension::instance()->SetSystemAllocator(
      &SystemInHugePages().system());
}

FreeMemory& AllocatorMemory() {
  static TcmallocMemory* const memory = new TcmallocMemory();
  return *memory;
}

}  // namespace tensorkv
