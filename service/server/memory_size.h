// How much memory this process may use.

#ifndef TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_
#define TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_

#include <cstdint>

namespace tensorkv {

// The machine's memory, or the container's limit where that is lower.
uint64_t MemorySizeBytes();

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_
