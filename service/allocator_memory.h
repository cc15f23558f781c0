// The free memory of the allocator that the process is linked with.

#ifndef TENSORKV_SERVICE_ALLOCATOR_MEMORY_H_
#define TENSORKV_SERVICE_ALLOCATOR_MEMORY_H_

#include "service/server/memory_releaser.h"

namespace tensorkv {

// Lives as long as the process.
FreeMemory& AllocatorMemory();

// While it lives, what the allocator gets anew from the system is for huge
// pages, where there are any: their first touch costs 512 times fewer faults,
// but who gives memory back keeps more of it. For what stays. One at a time.
class GrowthInHugePages {
 public:
  GrowthInHugePages();
  ~GrowthInHugePages();
  GrowthInHugePages(const GrowthInHugePages&) = delete;
  GrowthInHugePages& operator=(const GrowthInHugePages&) = delete;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_ALLOCATOR_MEMORY_H_
