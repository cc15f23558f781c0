#include "service/server/memory_size.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(MemorySizeTest, IsThatOfAMachine) {
  EXPECT_GT(MemorySizeBytes(), uint64_t{1} << 26);
  EXPECT_LT(MemorySizeBytes(), uint64_t{1} << 50);
}

}  // namespace
}  // namespace tensorkv
