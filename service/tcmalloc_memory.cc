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

}  // namespace

FreeMemory& AllocatorMemory() {
  static TcmallocMemory* const memory = new TcmallocMemory();
  return *memory;
}

}  // namespace tensorkv
