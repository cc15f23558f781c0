#include "service/store/keyspace/pull/delta_cache.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

MadeDeltaPtr DeltaOf(int64_t bytes) {
  auto delta = MakeRefCounted<MadeDelta>();
  delta->bytes = Tensor::Allocate(DType::kU8, {bytes}).value();
  return delta;
}

DeltaId IdOf(Version from, Version to) {
  return {.key = "w", .from = from, .to = to, .dtype = DType::kBF16};
}

class DeltaCacheTest : public ::testing::Test {
 protected:
  // Returns whether the caller is to make it; keeps what it gets.
  bool Get(const DeltaId& id) {
    return cache_.Get(
        id, [this](const MadeDeltaPtr& delta) { got_.push_back(delta); });
  }

  // Adds a delta of so many bytes, or none.
  MadeDeltaPtr Add(const DeltaId& id, int64_t bytes) {
    const MadeDeltaPtr delta = bytes > 0 ? DeltaOf(bytes) : nullptr;
    cache_.Add(id, delta, cache_.Reserve(DeltaCache::BytesOf(id, 0)));
    return delta;
  }

  const RefPtr<ByteBudget> budget_ =
      MakeRefCounted<ByteBudget>("deltas", UINT64_MAX);
  DeltaCache cache_{10'000, budget_};
  std::vector<MadeDeltaPtr> got_;
};

TEST_F(DeltaCacheTest, OneMakesADeltaForAllWhoWait) {
  EXPECT_TRUE(Get(IdOf(1, 2)));
  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_TRUE(Get(IdOf(1, 3)));
  EXPECT_THAT(got_, SizeIs(0));

  const MadeDeltaPtr delta = Add(IdOf(1, 2), 100);

  EXPECT_THAT(got_, ElementsAre(delta, delta));
  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_THAT(got_, SizeIs(3));
  EXPECT_EQ(cache_.counts(), (ChangeCounts{.made = 2, .shared = 2}));
}

TEST_F(DeltaCacheTest, ThatThereIsNoneIsKeptToo) {
  EXPECT_TRUE(Get(IdOf(1, 2)));

  Add(IdOf(1, 2), 0);

  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_THAT(got_, ElementsAre(nullptr, nullptr));
}

TEST_F(DeltaCacheTest, WhatIsNotKeptIsMadeAgain) {
  EXPECT_TRUE(Get(IdOf(1, 2)));

  cache_.Add(IdOf(1, 2), DeltaOf(100), Reservation());

  EXPECT_THAT(got_, SizeIs(1));
  EXPECT_EQ(cache_.used_bytes(), 0);
  EXPECT_TRUE(Get(IdOf(1, 2)));
}

TEST_F(DeltaCacheTest, WhatWasAskedForLongestAgoGoes) {
  for (const Version to : {2, 3, 4}) {
    EXPECT_TRUE(Get(IdOf(1, to)));
    if (to == 4) Get(IdOf(1, 2));
    Add(IdOf(1, to), 4000);
  }

  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_FALSE(Get(IdOf(1, 4)));
  EXPECT_TRUE(Get(IdOf(1, 3)));
}

TEST_F(DeltaCacheTest, ForOneAboveTheBoundThereAreNoBytes) {
  EXPECT_EQ(cache_.Reserve(10'001).bytes(), 0);
  EXPECT_EQ(cache_.Reserve(10'000).bytes(), 10'000);
}

TEST_F(DeltaCacheTest, WhatIsLetGoIsCountedUntilItIsDestroyed) {
  EXPECT_TRUE(Get(IdOf(1, 2)));
  EXPECT_TRUE(Get(IdOf(1, 3)));
  Add(IdOf(1, 2), 0);
  const uint64_t bytes = budget_->used_bytes();
  EXPECT_EQ(bytes, DeltaCache::BytesOf(IdOf(1, 2), 0));
  {
    const DeltaCache::Kept kept = cache_.Clear();
    EXPECT_EQ(budget_->used_bytes(), bytes);
  }

  EXPECT_EQ(budget_->used_bytes(), 0);
  EXPECT_TRUE(Get(IdOf(1, 2)));
  EXPECT_FALSE(Get(IdOf(1, 3))) << "it is being made yet";
}

TEST_F(DeltaCacheTest, EachLifeOfANamespaceHasItsOwnNumber) {
  EXPECT_NE(cache_.incarnation(), DeltaCache(0, budget_).incarnation());
}

}  // namespace
}  // namespace tensorkv
