// The memory of a fake GPU: host memory that shows accesses beyond its end, at
// addresses that only the GPU can use.

#ifndef TENSORKV_TESTS_TESTING_GUARDED_MEMORY_H_
#define TENSORKV_TESTS_TESTING_GUARDED_MEMORY_H_

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace tensorkv::testing {

inline constexpr size_t kAlignment = 256;

// Behind every piece of memory, with a pattern that shows whether a kernel has
// written beyond the end; AddressSanitizer sees it also when one reads there.
inline constexpr size_t kMinGuardBytes = 64;
inline constexpr char kGuardPattern = '\x5a';

// Set in addresses of device memory. No process has such addresses.
inline constexpr uintptr_t kDeviceBit = uintptr_t{1} << 62;

inline bool IsDeviceAddress(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) & kDeviceBit) != 0;
}

inline void* DeviceAddressOf(char* memory) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) |
                                 kDeviceBit);
}

inline char* MemoryOf(const void* device) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(device) &
                                 ~kDeviceBit);
}

inline size_t BytesWithGuard(size_t size_bytes) {
  return (size_bytes + kMinGuardBytes + kAlignment - 1) / kAlignment *
         kAlignment;
}

inline char* AllocateGuarded(size_t size_bytes) {
  const size_t bytes = BytesWithGuard(size_bytes);
  char* const memory =
      static_cast<char*>(std::aligned_alloc(kAlignment, bytes));
  std::memset(memory + size_bytes, kGuardPattern, bytes - size_bytes);
  ASAN_POISON_MEMORY_REGION(memory + size_bytes, bytes - size_bytes);
  return memory;
}

inline void FreeGuarded(char* memory, size_t size_bytes) {
  const size_t bytes = BytesWithGuard(size_bytes);
  ASAN_UNPOISON_MEMORY_REGION(memory + size_bytes, bytes - size_bytes);
  if (!std::all_of(memory + size_bytes, memory + bytes,
                   [](char byte) { return byte == kGuardPattern; })) {
    std::cerr << "FakeGpu: memory of " << size_bytes
              << " bytes was written beyond its end\n";
    std::abort();
  }
  std::free(memory);
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_GUARDED_MEMORY_H_
