#include "client/internal/transfer/received_memory.h"

#include <malloc.h>

#include <cstddef>
#include <cstdlib>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// How many blocks the C library has mapped from the system besides its heap.
size_t NumMapped() { return mallinfo2().hblks; }

// Sanitizers bring an allocator that maps none here.
TEST(ReceivedMemoryTest, LargeBlocksComeFromTheHeap) {
  KeepReceivedMemory();
  const size_t num_before = NumMapped();

  for (const size_t bytes : {size_t{1} << 20, size_t{8} << 20}) {
    void* volatile block = std::malloc(bytes);
    EXPECT_EQ(NumMapped(), num_before) << bytes << " bytes";
    std::free(block);
  }
}

}  // namespace
}  // namespace tensorkv
