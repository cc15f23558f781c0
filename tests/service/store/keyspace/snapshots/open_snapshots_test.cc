#include "service/store/keyspace/snapshots/open_snapshots.h"

#include <deque>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/looks.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OpenSnapshotsTest : public ::testing::Test {
 protected:
  OpenSnapshot& Open(uint64_t revision) {
    snapshots_.Open(&opened_.emplace_back("n"), revision);
    return opened_.back();
  }
  void Keep(const std::string& name, uint64_t since, uint64_t until) {
    const auto key = StoredKey::Create(name, DType::kF32, {1});
    snapshots_.Keep(MakeRefCounted<KeptKey>(*key, account_), since, until);
  }
  std::vector<std::string> Take(OpenSnapshot& snapshot) {
    std::vector<KeptKeyPtr> taken;
    std::vector<KeptKeyPtr> dropped;
    EXPECT_TRUE(snapshots_.Take(snapshot, 100, taken, dropped));
    std::vector<std::string> names;
    for (const KeptKeyPtr& key : taken) names.push_back(key->name());
    return names;
  }
  void Close(OpenSnapshot& snapshot) {
    std::vector<KeptKeyPtr> dropped;
    EXPECT_TRUE(snapshots_.Close(&snapshot, 100, dropped));
  }

  const RefPtr<BudgetAccount> account_ = MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("test", UINT64_MAX));
  OpenSnapshots snapshots_;
  std::deque<OpenSnapshot> opened_;
};

TEST_F(OpenSnapshotsTest, ChangeLooksAtFewOfTenThousand) {
  constexpr uint64_t kMany = 10'000;
  for (uint64_t i = 1; i <= kMany; ++i) Open(i).is_walked = true;
  num_looks = 0;

  EXPECT_EQ(snapshots_.newest(), kMany);
  EXPECT_TRUE(snapshots_.MayLack("k", kMany / 2, kMany + 1));
  Keep("k", kMany / 2, kMany + 1);

  EXPECT_LE(num_looks, 60u);
}

TEST_F(OpenSnapshotsTest, FormerKeyIsForThoseThatAreBetweenItsChanges) {
  OpenSnapshot& before = Open(1);
  OpenSnapshot& first = Open(2);
  OpenSnapshot& second = Open(4);
  OpenSnapshot& after = Open(5);

  EXPECT_TRUE(snapshots_.MayLack("k", 2, 5));
  EXPECT_FALSE(snapshots_.MayLack("k", 3, 4));
  Keep("k", 2, 5);

  EXPECT_THAT(Take(before), IsEmpty());
  EXPECT_THAT(Take(first), ElementsAre("k"));
  EXPECT_EQ(snapshots_.num_kept(), 1u);
  EXPECT_THAT(Take(after), IsEmpty());
  EXPECT_THAT(Take(second), ElementsAre("k"));
  EXPECT_EQ(snapshots_.num_kept(), 0u) << "the last one lets it go";
}

TEST_F(OpenSnapshotsTest, KeyThatIsTakenIsNotLackedAgain) {
  OpenSnapshot& snapshot = Open(1);
  snapshot.walked = "m";

  EXPECT_FALSE(snapshots_.MayLack("k", 1, 2));
  EXPECT_TRUE(snapshots_.MayLack("n", 1, 2));
  Keep("k", 1, 2);

  EXPECT_THAT(Take(snapshot), IsEmpty());
  EXPECT_EQ(snapshots_.num_kept(), 0u);
}

TEST_F(OpenSnapshotsTest, OneThatEndsLetsGoOfWhatItHasNotLookedAt) {
  OpenSnapshot& one = Open(1);
  OpenSnapshot& other = Open(2);
  Keep("k", 1, 3);

  Close(one);

  EXPECT_EQ(snapshots_.num_kept(), 1u);
  EXPECT_EQ(snapshots_.newest(), 2u);
  Close(other);
  EXPECT_EQ(snapshots_.num_kept(), 0u);
  EXPECT_EQ(snapshots_.newest(), 0u);
}

TEST_F(OpenSnapshotsTest, ThoseThatHaveFailedLackNothing) {
  OpenSnapshot& one = Open(1);
  OpenSnapshot& other = Open(2);
  Keep("k", 1, 3);

  snapshots_.FailAll(absl::ResourceExhaustedError("too much"));

  EXPECT_FALSE(one.failure.ok());
  EXPECT_FALSE(other.failure.ok());
  EXPECT_EQ(snapshots_.newest(), 0u);
  EXPECT_FALSE(snapshots_.MayLack("k", 1, 3));
  OpenSnapshot& later = Open(4);
  EXPECT_OK(later.failure);
  EXPECT_TRUE(snapshots_.MayLack("k", 3, 5));
  Close(later);
  EXPECT_EQ(snapshots_.newest(), 0u);
  Close(one);
  Close(other);
  EXPECT_EQ(snapshots_.num_kept(), 0u);
}

TEST_F(OpenSnapshotsTest, WhatIsKeptIsCounted) {
  OpenSnapshot& snapshot = Open(1);

  Keep("k", 1, 2);

  EXPECT_GT(account_->used_bytes(), sizeof(KeptKey));
  Close(snapshot);
  EXPECT_EQ(account_->used_bytes(), 0u);
}

TEST_F(OpenSnapshotsTest, NothingIsKeptForOneThatIsBeingClosed) {
  OpenSnapshot& snapshot = Open(1);
  Keep("a", 1, 2);
  Keep("b", 1, 2);
  std::vector<KeptKeyPtr> dropped;

  ASSERT_FALSE(snapshots_.Close(&snapshot, /*max_keys=*/1, dropped));

  EXPECT_FALSE(snapshots_.MayLack("k", 1, 2));
  Close(snapshot);
  EXPECT_EQ(snapshots_.num_kept(), 0u);
}

TEST(SnapshotHistoryTest, EachSnapshotHasWhatWasThere) {
  SnapshotHistory<int> history;
  SnapshotRevisions open;
  int now = 0;
  const auto change = [&](int to) {
    history.Keep(&open, [&] { return now; });
    now = to;
  };

  change(1);
  open = {.oldest = 5, .newest = 5};
  change(2);
  open = {.oldest = 5, .newest = 9};
  change(3);
  change(4);

  EXPECT_EQ(history.At(5, now), 1);
  EXPECT_EQ(history.At(7, now), 2);
  EXPECT_EQ(history.At(9, now), 2);
  EXPECT_EQ(history.At(10, now), 4);
}

}  // namespace
}  // namespace tensorkv
