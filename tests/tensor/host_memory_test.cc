#include "tensor/host_memory.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

constexpr size_t kMiB = 1 << 20;

// By size in bytes.
class HostMemoryTest : public ::testing::TestWithParam<size_t> {};

TEST_P(HostMemoryTest, IsAlignedWritableAndFreed) {
  void* const memory = AllocateHostMemory(GetParam());
  ASSERT_NE(memory, nullptr);

  std::memset(memory, 1, GetParam());

  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kHostMemoryAlignment, 0u);
  FreeHostMemory(memory);
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostMemoryTest,
                         ::testing::Values(0, 1, 64, 8 * kMiB - 1, 8 * kMiB,
                                           8 * kMiB + 1, 11 * kMiB));

TEST(HostMemoryLimitsTest, MoreThanThereIsGivesNull) {
  EXPECT_EQ(AllocateHostMemory(std::numeric_limits<size_t>::max() / 2),
            nullptr);
}

}  // namespace
}  // namespace tensorkv
