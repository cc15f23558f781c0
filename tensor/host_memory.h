// Host memory for the elements of tensors.

#ifndef TENSORKV_TENSOR_HOST_MEMORY_H_
#define TENSORKV_TENSOR_HOST_MEMORY_H_

#include <cstddef>

namespace tensorkv {

inline constexpr size_t kHostMemoryAlignment = 64;

// Returns at least `size_bytes`, uninitialised, aligned to
// kHostMemoryAlignment; null if the system has no memory left. Asks the system
// for huge pages from 8 MiB on: one takes the place of 512 page faults, which
// cost more than copying into their pages. The caller owns the memory until
// FreeHostMemory. Thread-safe.
void* AllocateHostMemory(size_t size_bytes);

// Frees what AllocateHostMemory returned.
void FreeHostMemory(void* memory);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_HOST_MEMORY_H_
