#include "service/store/keyspace/stored_key.h"

#include "gtest/gtest.h"
#include "service/store/keyspace/pull/row_access.h"

namespace tensorkv {
namespace {

// What updates and sums know of a key while others replace its value.
TEST(StoredKeyTest, NumberOfElementsIsNotReadFromTheValue) {
  const auto key = StoredKey::Create("w", DType::kF32, {2, 3});

  EXPECT_EQ(key->num_elements(), 6);
  EXPECT_EQ(StoredKey::Create("w", DType::kF32, {})->num_elements(), 1);
  EXPECT_EQ(StoredKey::Create("w", DType::kF32, {2, 0})->num_elements(), 0);
}

// Versions that a server tells of a removed key must be those that it makes.
TEST(StoredKeyTest, AccessesAheadAreNoUpdates) {
  const auto key = StoredKey::Create("w", DType::kF32, {2});
  key->is_updating = true;  // for an access
  key->pending().emplace_back().access = MakeRefCounted<RowAccess>();

  EXPECT_EQ(key->num_updates_ahead(), 0u);

  key->pending().emplace_back();
  EXPECT_EQ(key->num_updates_ahead(), 1u);
  key->CountUpdate();
  EXPECT_EQ(key->num_updates_ahead(), 2u);
  key->EndCount(/*is_applied=*/false);
  EXPECT_EQ(key->num_updates_ahead(), 1u);
}

// A manifest may name any rank: noting it is refused for want of memory.
TEST(StoredKeyTest, PlacesUpToTheHighestRankTakeTheirBytes) {
  const auto key = StoredKey::Create("w", DType::kF32, {2});

  EXPECT_GE(key->BytesToRecord(UINT32_MAX),
            (uint64_t{1} << 32) * sizeof(LastContributions::Of));
}

}  // namespace
}  // namespace tensorkv
