#include "client/cluster/known_namespaces.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::Optional;

TEST(KnownNamespacesTest, TranslatesTheUidThatWasLearntLast) {
  KnownNamespaces known;
  known.Learn("train", 7, Mode::kSync, {{"a", 7}, {"b", 70}});

  EXPECT_THAT(known.UidAt("b", "train", 7), Optional(70));
  EXPECT_EQ(known.UidAt("b", "train", 8), std::nullopt);
  EXPECT_EQ(known.UidAt("c", "train", 7), std::nullopt);
  EXPECT_EQ(known.UidAt("b", "other", 7), std::nullopt);

  // "b" has become the home, and "c" has come.
  known.Learn("train", 70, Mode::kSync, {{"a", 7}, {"b", 70}, {"c", 700}});
  EXPECT_THAT(known.UidAt("c", "train", 7), Optional(700));
  EXPECT_THAT(known.UidAt("a", "train", 70), Optional(7));
  // It was made anew.
  known.Learn("train", 71, Mode::kSync, {{"a", 8}, {"b", 71}});
  EXPECT_EQ(known.UidAt("a", "train", 7), std::nullopt);
  EXPECT_EQ(known.ModeOf("train"), Mode::kSync);
  EXPECT_EQ(known.ModeOf("other"), Mode::kUnknown);
}

TEST(KnownNamespacesTest, EmptyNameIsDefault) {
  KnownNamespaces known;
  known.Learn("", 7, Mode::kAsync, {{"a", 7}});

  EXPECT_THAT(known.UidAt("a", "default", 7), Optional(7));
}

TEST(KnownNamespacesTest, TranslatesWorkersThatHaveJoinedEverywhere) {
  KnownNamespaces known;
  known.SetJoined("train", "w", "a", {.rank = 0, .epoch = 5});
  known.SetJoined("train", "w", "b", {.rank = 1, .epoch = 9});
  known.CompleteJoin("train", "w", {.rank = 0, .epoch = 5}, {});

  EXPECT_EQ(known.WorkerAt("b", "train", {.rank = 0, .epoch = 5}).epoch, 9);
  EXPECT_EQ(known.WorkerAt("b", "train", {.rank = 0, .epoch = 5}).rank, 1);
  EXPECT_EQ(known.WorkerAt("b", "train", {.rank = 0}).epoch, 0);
}

TEST(KnownNamespacesTest, WorkersAreOfOneLifeOfTheirNamespace) {
  KnownNamespaces known;
  known.SetJoined("train", "w", "b", {.rank = 1, .epoch = 9});
  known.CompleteJoin("train", "w", {.rank = 0, .epoch = 5}, {});
  known.Learn("train", 7, Mode::kSync, {{"a", 7}, {"b", 70}});
  EXPECT_EQ(known.WorkerAt("b", "train", {.rank = 0, .epoch = 5}).epoch, 9);

  known.Learn("train", 8, Mode::kSync, {{"a", 8}, {"b", 80}});

  EXPECT_FALSE(KnownNamespaces::IsSomebody(
      known.WorkerAt("b", "train", {.rank = 0, .epoch = 5})));
}

TEST(KnownNamespacesTest, UnknownWorkersAreNobodyElsewhere) {
  KnownNamespaces known;
  known.SetJoined("train", "w", "b", {.rank = 0, .epoch = 5});

  // Its epoch at home may be somebody's at the other server.
  EXPECT_EQ(known.WorkerAt("b", "train", {.rank = 0, .epoch = 5}).epoch,
            UINT64_MAX);
  known.CompleteJoin("train", "w", {.rank = 0, .epoch = 4}, {});
  known.Forget("train", {.rank = 0, .epoch = 4});
  EXPECT_EQ(known.WorkerAt("b", "train", {.rank = 0, .epoch = 4}).epoch,
            UINT64_MAX);
}

TEST(KnownNamespacesTest, ServersThatComeAndGoAreNoOtherIncarnation) {
  KnownNamespaces known;
  const auto join = [&](KnownNamespaces::ByServer<uint64_t> incarnations) {
    return known.CompleteJoin("train", "w", {.rank = 0, .epoch = 5},
                              std::move(incarnations));
  };
  const uint64_t first = join({{"a", 10}, {"b", 20}});

  EXPECT_EQ(first, 30u);
  EXPECT_EQ(join({{"a", 10}, {"b", 20}, {"c", 30}}), first);
  EXPECT_EQ(join({{"b", 20}, {"c", 30}}), first);
  EXPECT_NE(join({{"b", 21}, {"c", 30}}), first);
}

TEST(KnownNamespacesTest, JoinReplacesWhatItHasLeftBehind) {
  KnownNamespaces known;
  known.SetJoined("train", "w", "a", {.rank = 0, .epoch = 5});

  // One that came to its end at "a" alone.
  EXPECT_THAT(known.ReplacedAt("a", "train", "w", 0), Optional(5));
  EXPECT_EQ(known.ReplacedAt("b", "train", "w", 0), std::nullopt);

  known.SetJoined("train", "w", "b", {.rank = 0, .epoch = 9});
  known.CompleteJoin("train", "w", {.rank = 0, .epoch = 5}, {});
  EXPECT_THAT(known.ReplacedAt("b", "train", "w", 5), Optional(9));
  // A repeat of the Join at one server.
  known.SetJoined("train", "w", "a", {.rank = 0, .epoch = 5});
  EXPECT_THAT(known.ReplacedAt("b", "train", "w", 5), Optional(9));
  // Somebody else of that name, who does not know the epoch.
  EXPECT_EQ(known.ReplacedAt("b", "train", "w", 0), std::nullopt);
}

}  // namespace
}  // namespace tensorkv
