#include "service/store/keyspace/watch/change_log.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const WatchFilter kAllKeys = {.prefix = ""};

class ChangeLogTest : public ::testing::Test {
 protected:
  ChangeLogTest() { changes_.Begin(absl::ZeroDuration()); }

  void Change(const std::string& key, uint64_t version, uint64_t revision) {
    changes_.Record(ChangeKind::kValue, key, version, revision);
  }
  void Tell(uint64_t told) {
    log_.Add(changes_.Take(told, absl::ZeroDuration()));
  }
  // What a watch at the position is told: "key@version".
  std::vector<std::string> Read(uint64_t& position,
                                const WatchFilter& filter = kAllKeys,
                                size_t max_changes = 100,
                                uint64_t not_before = 0) {
    WatchReply reply;
    is_covered_ = log_.Read(filter, not_before, max_changes, position, reply);
    std::vector<std::string> told;
    for (const v1::Change& each : reply.changes()) {
      told.push_back(absl::StrCat(each.key(), "@", each.version()));
    }
    return told;
  }

  RecentChanges changes_{1 << 20};
  ChangeLog log_{1 << 20};
  bool is_covered_ = false;
  uint64_t position_ = 0;
};

TEST_F(ChangeLogTest, TellsInTheOrderOfRevisionsUpToTheOneThatIsTold) {
  Change("late", 1, 9);
  Change("b", 1, 5);
  Change("a", 1, 4);
  Tell(8);

  EXPECT_THAT(Read(position_), ElementsAre("a@1", "b@1"));
  EXPECT_THAT(Read(position_), IsEmpty());
  Tell(9);
  EXPECT_THAT(Read(position_), ElementsAre("late@1"));
}

TEST_F(ChangeLogTest, TellsTheNewestOfEachKeyThatIsSettled) {
  Change("a", 1, 1);
  Change("b", 1, 2);
  Change("a", 2, 3);
  Change("a", 3, 7);
  Tell(6);

  EXPECT_THAT(Read(position_), ElementsAre("b@1", "a@2"));
  Tell(7);
  EXPECT_THAT(Read(position_), ElementsAre("a@3"));
}

TEST_F(ChangeLogTest, TellsSomeAtATime) {
  for (int i = 0; i < 5; ++i) Change(absl::StrCat("k", i), 1, 1);
  Tell(1);

  EXPECT_THAT(Read(position_, kAllKeys, 3),
              ElementsAre("k0@1", "k1@1", "k2@1"));
  EXPECT_THAT(Read(position_, kAllKeys, 3), ElementsAre("k3@1", "k4@1"));
  EXPECT_EQ(position_, log_.last());
}

TEST_F(ChangeLogTest, TellsNothingThatMayBeOlderThanWhatWasListed) {
  Change("a", 1, 1);
  Tell(1);

  EXPECT_THAT(Read(position_, kAllKeys, 100, /*not_before=*/2), IsEmpty());
  Change("a", 2, 2);
  Tell(2);
  EXPECT_THAT(Read(position_, kAllKeys, 100, /*not_before=*/2),
              ElementsAre("a@2"));
}

TEST_F(ChangeLogTest, ForgetsTheOldestWhereThereIsTooMuch) {
  ChangeLog small(1000);
  for (int i = 0; i < 100; ++i) Change(absl::StrCat("k", i), 1, i + 1);
  small.Add(changes_.Take(100, absl::ZeroDuration()));

  EXPECT_FALSE(small.Covers(0));
  EXPECT_FALSE(small.Covers(90));
  EXPECT_TRUE(small.Covers(99));
}

TEST_F(ChangeLogTest, ForgetsAllWhereMoreHasChangedThanIsCollected) {
  RecentChanges few(200);
  few.Begin(absl::ZeroDuration());
  for (int i = 0; i < 100; ++i) {
    few.Record(ChangeKind::kValue, "key", i + 1, i + 1);
  }
  log_.Add(few.Take(100, absl::ZeroDuration()));

  EXPECT_FALSE(log_.Covers(0));
  EXPECT_TRUE(log_.Covers(log_.last()));
}

TEST_F(ChangeLogTest, CollectsNothingUnlessSomebodyWatches) {
  RecentChanges changes(1 << 20);
  changes.Record(ChangeKind::kValue, "a", 1, 1);
  EXPECT_FALSE(changes.MustTake(1));
  changes.Begin(absl::ZeroDuration());
  EXPECT_TRUE(changes.MustTake(1));
  EXPECT_THAT(changes.Take(1, absl::ZeroDuration()).entries, IsEmpty());
  EXPECT_FALSE(changes.MustTake(1));
}

TEST_F(ChangeLogTest, ToldWhatIsWatchedAlone) {
  Change("a", 1, 1);
  Change("ab", 1, 1);
  changes_.Record(ChangeKind::kSnapshot, "a", 7, 1);
  changes_.Record(ChangeKind::kDelete, "b", 0, 1);
  Tell(1);

  EXPECT_THAT(Read(position_, {.key = "a"}), ElementsAre("a@1"));
  position_ = 0;
  EXPECT_THAT(Read(position_, {.prefix = "a"}), ElementsAre("a@1", "ab@1"));
  position_ = 0;
  WatchReply reply;
  ASSERT_TRUE(log_.Read({.series = ""}, 0, 10, position_, reply));
  ASSERT_EQ(reply.changes_size(), 1);
  EXPECT_EQ(reply.changes(0).series(), "a");
  EXPECT_EQ(reply.changes(0).number(), 7);
}

}  // namespace
}  // namespace tensorkv
