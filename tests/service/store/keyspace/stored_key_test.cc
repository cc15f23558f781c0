#include "service/store/keyspace/stored_key.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(StoredKeyTest, KeepsNameDtypeAndShape) {
  const auto key = StoredKey::Create("layer/w", DType::kBF16, {2, 3});

  EXPECT_EQ(key->name(), "layer/w");
  EXPECT_EQ(key->dtype(), DType::kBF16);
  EXPECT_EQ(key->shape(), Shape({2, 3}));
  EXPECT_TRUE(key->HasShape({2, 3}));
  EXPECT_FALSE(key->HasShape({3, 2}));
  EXPECT_FALSE(key->HasShape({2, 3, 1}));
}

// What updates and sums know of a key while others replace its value.
TEST(StoredKeyTest, NumberOfElementsIsNotReadFromTheValue) {
  const auto key = StoredKey::Create("w", DType::kF32, {2, 3});

  EXPECT_EQ(key->num_elements(), 6);
  EXPECT_EQ(StoredKey::Create("w", DType::kF32, {})->num_elements(), 1);
  EXPECT_EQ(StoredKey::Create("w", DType::kF32, {2, 0})->num_elements(), 0);
}

TEST(StoredKeyTest, TakesTheLongestNameAndTheHighestRank) {
  const std::string name(1024, 'n');
  const Shape shape({1, 2, 3, 4, 5, 6, 7, 8});

  const auto key = StoredKey::Create(name, DType::kF32, shape);

  EXPECT_EQ(key->name(), name);
  EXPECT_EQ(key->shape(), shape);
}

TEST(StoredKeyTest, ScalarHasNoDimensions) {
  const auto key = StoredKey::Create("s", DType::kF64, {});

  EXPECT_TRUE(key->HasShape({}));
  EXPECT_EQ(key->name(), "s");
}

TEST(StoredKeyTest, ValueIsATensorThatSharesTheBuffer) {
  const auto key = StoredKey::Create("w", DType::kF32, {2});
  key->value = Tensor::Filled(DType::kF32, {2}, 5)->TakeBuffer();

  const Tensor tensor = key->ToTensor();

  EXPECT_EQ(tensor.buffer(), key->value);
  EXPECT_EQ(tensor.shape(), Shape({2}));
  EXPECT_EQ(key->num_elements(), 2);
  EXPECT_EQ(key->value_bytes(), 8u);
}

// A manifest may name any rank: noting it is refused for want of memory.
TEST(StoredKeyTest, PlacesUpToTheHighestRankTakeTheirBytes) {
  const auto key = StoredKey::Create("w", DType::kF32, {2});

  EXPECT_GE(key->BytesToRecord(UINT32_MAX),
            (uint64_t{1} << 32) * sizeof(LastContributions::Of));
}

TEST(StoredKeyTest, GivesItsOverheadBackWithItsEnd) {
  const auto account =
      MakeRefCounted<BudgetAccount>(MakeRefCounted<ByteBudget>("test", 1000));
  ASSERT_TRUE(account->Reserve(KeyOverheadBytes("w")).ok());
  RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {2});
  key->ChargeTo(account);

  EXPECT_EQ(account->used_bytes(), kKeyOverheadBytes + 1);
  key = nullptr;

  EXPECT_EQ(account->used_bytes(), 0u);
}

}  // namespace
}  // namespace tensorkv
