// For a server with the system's allocator, which decides by itself what it
// keeps.

#include "service/allocator_memory.h"

namespace tensorkv {
namespace {

class SystemMemory final : public FreeMemory {
 public:
  size_t bytes() const override { return 0; }
  void Release(size_t) override {}
};

}  // namespace

FreeMemory& AllocatorMemory() {
  static SystemMemory* const memory = new SystemMemory();
  return *memory;
}

GrowthInHugePages::GrowthInHugePages() = default;
GrowthInHugePages::~GrowthInHugePages() = default;

}  // namespace tensorkv
