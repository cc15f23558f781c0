#include "service/store/keyspace/watch/change_log.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const WatchFilter kAllKeys = {.prefix = ""};
// Is enough for whatever fits into a reply.
constexpr size_t kMaxLocks = 10;

class ChangeLogTest : public ::testing::Test {
 protected:
  ChangeLogTest() { changes_.Begin(); }

  void Change(const std::string& key, uint64_t version, uint64_t revision) {
    changes_.Record(ChangeKind::kValue, key, version, revision);
  }
  void Tell(uint64_t told) {
    log_.Add(changes_.Take(told, absl::ZeroDuration()));
  }
  static KeyTelling TellAll(absl::string_view) { return KeyTelling::kTold; }
  // What a watch at the position is told: "key@version".
  std::vector<std::string> Read(uint64_t& position,
                                const WatchFilter& filter = kAllKeys,
                                size_t max_changes = 100,
                                uint64_t not_before = 0) {
    WatchReply reply;
    EXPECT_TRUE(
        log_.Read({filter, not_before, max_changes, kMaxLocks, telling_},
                  position, reply));
    has_more_ = reply.has_more();
    std::vector<std::string> told;
    for (const v1::Change& each : reply.changes()) {
      told.push_back(absl::StrCat(each.key(), "@", each.version()));
    }
    return told;
  }

  const std::shared_ptr<ChangeMemory> memory_ =
      std::make_shared<ChangeMemory>(1 << 30);
  RecentChanges changes_{memory_};
  ChangeLog log_{memory_};
  KeyTelling (*telling_)(absl::string_view) = TellAll;
  bool has_more_ = false;
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
  EXPECT_TRUE(has_more_);
  EXPECT_THAT(Read(position_, kAllKeys, 3), ElementsAre("k3@1", "k4@1"));
  EXPECT_FALSE(has_more_);
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

// Who reads much that is not for him has the log for a bounded time.
TEST_F(ChangeLogTest, LooksAtABoundedNumberOfChanges) {
  constexpr int kNumChanges = 100'000;
  for (int i = 0; i < kNumChanges; ++i) Change(absl::StrCat("k", i), 1, 1);
  Tell(1);

  int num_reads = 0;
  do {
    const uint64_t before = position_;
    EXPECT_THAT(Read(position_, {.key = "other"}), IsEmpty());
    ASSERT_GT(position_, before);
    ++num_reads;
  } while (has_more_);
  EXPECT_EQ(position_, log_.last());
  EXPECT_GT(num_reads, 1);
}

TEST_F(ChangeLogTest, NeverGoesBack) {
  Change("a", 2, 1);
  Change("a", 1, 2);
  Tell(2);

  EXPECT_THAT(Read(position_), ElementsAre("a@2"));
}

TEST_F(ChangeLogTest, ForgetsWhatHasGone) {
  Change("a", 1, 1);
  Change("b", 1, 1);
  changes_.Record(ChangeKind::kGone, "a", 0, 2);
  Tell(2);

  EXPECT_THAT(Read(position_), ElementsAre("b@1"));
}

TEST_F(ChangeLogTest, SkipsKeysOfOthersAndWaitsForThoseThatMove) {
  for (const std::string key : {"a", "gone", "moves", "z"}) Change(key, 1, 1);
  Change("deleted/gone", 1, 1);
  changes_.Record(ChangeKind::kDelete, "deleted/gone", 0, 2);
  Tell(2);
  const auto telling = [](absl::string_view key) {
    if (absl::EndsWith(key, "gone")) return KeyTelling::kSkipped;
    return key == "moves" ? KeyTelling::kLater : KeyTelling::kTold;
  };

  telling_ = telling;
  EXPECT_THAT(Read(position_), ElementsAre("a@1"));
  EXPECT_FALSE(has_more_);
  EXPECT_LT(position_, log_.last());
  telling_ = TellAll;
  EXPECT_THAT(Read(position_), ElementsAre("moves@1", "z@1", "deleted/gone@0"));
}

class SmallChangeLogTest : public ::testing::Test {
 protected:
  static void AddMany(RecentChanges& changes, ChangeLog& log, int count) {
    changes.Begin();
    for (int i = 0; i < count; ++i) {
      changes.Record(ChangeKind::kValue, absl::StrCat("k", i), 1, 1);
    }
    log.Add(changes.Take(1, absl::ZeroDuration()));
  }

  const std::shared_ptr<ChangeMemory> memory_ =
      std::make_shared<ChangeMemory>(1 << 16);
  RecentChanges changes_{memory_};
  ChangeLog log_{memory_};
};

TEST_F(SmallChangeLogTest, ForgetsTheOldestWhereThereIsTooMuch) {
  for (int i = 0; i < 20; ++i) {
    changes_.Begin();
    for (int k = 0; k < 20; ++k) {
      changes_.Record(ChangeKind::kValue, absl::StrCat(i, "/", k), 1, i + 1);
    }
    log_.Add(changes_.Take(i + 1, absl::ZeroDuration()));
  }

  EXPECT_LE(log_.bytes(), 1 << 15);
  EXPECT_FALSE(log_.Covers(0));
  EXPECT_TRUE(log_.Covers(log_.last() - 1));
  const WatchFilter all = {.prefix = ""};
  WatchReply reply;
  uint64_t position = 0;
  const auto tell_all = [](absl::string_view) { return KeyTelling::kTold; };
  EXPECT_FALSE(log_.Read({all, 0, 10, kMaxLocks, tell_all}, position, reply));
}

TEST_F(SmallChangeLogTest, ForgetsAllWhereMoreHasChangedThanIsCollected) {
  AddMany(changes_, log_, 1000);

  EXPECT_FALSE(log_.Covers(0));
  EXPECT_TRUE(log_.Covers(log_.last()));
  EXPECT_EQ(log_.bytes(), 0);
}

TEST_F(SmallChangeLogTest, ForgetsAllWhereMoreWaitsThanMay) {
  changes_.Begin();
  for (int batch = 0; batch < 4; ++batch) {
    for (int i = 0; i < 60; ++i) {
      changes_.Record(ChangeKind::kValue, absl::StrCat(batch, "/", i), 1, 9);
    }
    log_.Add(changes_.Take(/*told=*/1, absl::ZeroDuration()));
  }

  EXPECT_FALSE(log_.Covers(0));
}

// The memory is one for all namespaces.
TEST_F(SmallChangeLogTest, TakesLessWhereThereAreOthers) {
  for (int i = 0; i < 10; ++i) {
    changes_.Begin();
    for (int k = 0; k < 50; ++k) {
      changes_.Record(ChangeKind::kValue, absl::StrCat(i, "/", k), 1, 1);
    }
    log_.Add(changes_.Take(1, absl::ZeroDuration()));
  }
  EXPECT_GT(log_.bytes(), 1 << 14);

  RecentChanges others{memory_};
  ChangeLog other{memory_};
  AddMany(others, other, 1);

  EXPECT_LE(log_.bytes(), 1 << 14);
  EXPECT_GT(other.bytes(), 0);
}

TEST_F(ChangeLogTest, CollectsNothingUnlessSomebodyWatches) {
  RecentChanges changes(memory_);
  changes.Record(ChangeKind::kValue, "a", 1, 1);
  EXPECT_FALSE(changes.MustTake(1));
  changes.Begin();
  EXPECT_TRUE(changes.MustTake(1));
  EXPECT_THAT(changes.Take(1, absl::ZeroDuration()).changes, IsEmpty());
  EXPECT_FALSE(changes.MustTake(1));
}

TEST_F(ChangeLogTest, TellsNothingOfSlicesButToWhoNamesThem) {
  const std::string slice = absl::StrCat(kSliceMark, "0/4/w");

  EXPECT_FALSE(kAllKeys.MatchesKey(slice));
  EXPECT_TRUE(WatchFilter{.prefix = std::string(kSliceMark)}.MatchesKey(slice));
  EXPECT_TRUE(WatchFilter{.key = slice}.MatchesKey(slice));
}

TEST_F(ChangeLogTest, TellsWhatIsWatchedAlone) {
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
  const WatchFilter of_series = {.series = ""};
  ASSERT_TRUE(
      log_.Read({of_series, 0, 10, kMaxLocks, telling_}, position_, reply));
  ASSERT_EQ(reply.changes_size(), 1);
  EXPECT_EQ(reply.changes(0).series(), "a");
  EXPECT_EQ(reply.changes(0).number(), 7);
}

}  // namespace
}  // namespace tensorkv
