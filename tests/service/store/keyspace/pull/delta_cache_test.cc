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
  return {.key_hash = 1, .from = from, .to = to, .dtype = DType::kBF16};
}

class DeltaCacheTest : public ::testing::Test {
 protected:
  // Returns whether the caller is to make it; keeps what it gets.
  bool Get(const DeltaId& id) {
    return cache_.Get(
        id, [this](const MadeDeltaPtr& delta) { got_.push_back(delta); });
  }

  DeltaCache cache_{10'000};
  std::vector<MadeDeltaPtr> got_;
};

TEST_F(DeltaCacheTest, OneMakesADeltaForAllWhoWait) {
  EXPECT_TRUE(Get(IdOf(1, 2)));
  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_TRUE(Get(IdOf(1, 3)));
  EXPECT_THAT(got_, SizeIs(0));
  const MadeDeltaPtr delta = DeltaOf(100);

  cache_.Add(IdOf(1, 2), delta, /*is_kept=*/true);

  EXPECT_THAT(got_, ElementsAre(delta, delta));
  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_THAT(got_, SizeIs(3));
  EXPECT_EQ(cache_.num_made(), 1);
}

TEST_F(DeltaCacheTest, ThatThereIsNoneIsKeptToo) {
  EXPECT_TRUE(Get(IdOf(1, 2)));

  cache_.Add(IdOf(1, 2), nullptr, /*is_kept=*/true);

  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_THAT(got_, ElementsAre(nullptr, nullptr));
}

TEST_F(DeltaCacheTest, WhatIsNotKeptIsMadeAgain) {
  EXPECT_TRUE(Get(IdOf(1, 2)));

  cache_.Add(IdOf(1, 2), DeltaOf(100), /*is_kept=*/false);

  EXPECT_THAT(got_, SizeIs(1));
  EXPECT_EQ(cache_.used_bytes(), 0);
  EXPECT_TRUE(Get(IdOf(1, 2)));
}

TEST_F(DeltaCacheTest, WhatWasAskedForLongestAgoGoes) {
  for (const Version to : {2, 3, 4}) {
    EXPECT_TRUE(Get(IdOf(1, to)));
    if (to == 4) Get(IdOf(1, 2));
    cache_.Add(IdOf(1, to), DeltaOf(4000), /*is_kept=*/true);
  }

  EXPECT_LE(cache_.used_bytes(), 10'000);
  EXPECT_FALSE(Get(IdOf(1, 2)));
  EXPECT_FALSE(Get(IdOf(1, 4)));
  EXPECT_TRUE(Get(IdOf(1, 3)));
}

TEST_F(DeltaCacheTest, OneAboveTheBoundIsAnsweredAndNotKept) {
  EXPECT_TRUE(Get(IdOf(1, 2)));

  cache_.Add(IdOf(1, 2), DeltaOf(20'000), /*is_kept=*/true);

  EXPECT_THAT(got_, SizeIs(1));
  EXPECT_EQ(cache_.used_bytes(), 0);
}

TEST_F(DeltaCacheTest, EachLifeOfANamespaceHasItsOwnNumber) {
  EXPECT_NE(cache_.incarnation(), DeltaCache(0).incarnation());
}

}  // namespace
}  // namespace tensorkv
