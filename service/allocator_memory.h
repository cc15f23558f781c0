// The free memory of the allocator that the process is linked with.

#ifndef TENSORKV_SERVICE_ALLOCATOR_MEMORY_H_
#define TENSORKV_SERVICE_ALLOCATOR_MEMORY_H_

#include "service/server/memory_releaser.h"

namespace tensorkv {

// Lives as long as the process.
FreeMemory& AllocatorMemory();

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_ALLOCATOR_MEMORY_H_
