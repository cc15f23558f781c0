#include "service/store/keyspace/stored_key.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// What updates and sums know of a key while others replace its value.
TEST(StoredKeyTest, NumberOfElementsIsNotReadFromTheValue) {
  const auto key = StoredKey::Create("w", DType::kF32, {2, 3});

  EXPECT_EQ(key->num_elements(), 6);
  EXPECT_EQ(StoredKey::Create("w", DType::kF32, {})->num_elements(), 1);
  EXPECT_EQ(StoredKey::Create("w", DType::kF32, {2, 0})->num_elements(), 0);
}

// A manifest may name any rank: noting it is refused for want of memory.
TEST(StoredKeyTest, PlacesUpToTheHighestRankTakeTheirBytes) {
  const auto key = StoredKey::Create("w", DType::kF32, {2});

  EXPECT_GE(key->BytesToRecord(UINT32_MAX),
            (uint64_t{1} << 32) * sizeof(LastContributions::Of));
}

}  // namespace
}  // namespace tensorkv
