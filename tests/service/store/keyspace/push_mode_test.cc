#include "service/store/keyspace/push_mode.h"

#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace push_mode_test {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A mode and its group.
struct ModeOf {
  explicit ModeOf(const NamespaceConfig& config)
      : group({.min_workers = config.num_workers,
               .max_workers = config.num_workers}),
        mode(*PushMode::Create(config, &group)) {}
  PushMode* operator->() { return mode.get(); }

  WorkerGroup group;
  std::unique_ptr<PushMode> mode;
};

ModeOf Sync(uint32_t num_workers) {
  return ModeOf({.mode = Mode::kSync, .num_workers = num_workers});
}
ModeOf Bounded(uint32_t num_workers, uint32_t staleness) {
  return ModeOf({.mode = Mode::kBounded,
                 .num_workers = num_workers,
                 .staleness = staleness});
}

absl::Status Created(const NamespaceConfig& config) {
  const WorkerGroup group({});
  return PushMode::Create(config, &group).status();
}

std::optional<PendingUpdate> OnlyOf(PendingUpdates updates) {
  EXPECT_LE(updates.size(), 1u);
  if (updates.empty()) return std::nullopt;
  return std::move(updates[0]);
}

PushRequest PushBy(uint32_t rank, Step step) {
  PushRequest request;
  request.worker = Worker{rank, 0};
  request.step = step;
  return request;
}

Contribution One() {
  Contribution contribution;
  contribution.slots.emplace_back(
      PushEntry{.tensor = *Tensor::Filled(DType::kF32, {1}, 1)});
  return contribution;
}

TEST(PushModeTest, SyncNeedsWorkers) {
  EXPECT_THAT(Created({.mode = Mode::kSync}),
              StatusIs(kInvalid, HasSubstr("1 to 4096, got 0")));
  EXPECT_THAT(Created({.mode = Mode::kSync, .num_workers = 5000}),
              StatusIs(kInvalid, HasSubstr("got 5000")));
}

TEST(PushModeTest, OpenRoundsAreBounded) {
  EXPECT_THAT(
      Created({.mode = Mode::kSync, .num_workers = 2, .max_open_rounds = 65}),
      StatusIs(kInvalid, HasSubstr("max_open_rounds")));
}

TEST(PushModeTest, GroupAndQuorumMustMakeSense) {
  EXPECT_THAT(
      Created({.mode = Mode::kSync, .num_workers = 3, .max_workers = 2}),
      StatusIs(kInvalid, HasSubstr("max_workers")));
  EXPECT_THAT(
      Created({.mode = Mode::kBounded, .num_workers = 3, .max_workers = 5000}),
      StatusIs(kInvalid, HasSubstr("max_workers")));
  EXPECT_THAT(Created({.mode = Mode::kSync, .num_workers = 3, .quorum = 4}),
              StatusIs(kInvalid, HasSubstr("quorum")));
  EXPECT_THAT(Created({.mode = Mode::kSync,
                       .num_workers = 3,
                       .quorum = 2,
                       .quorum_grace = absl::Hours(2)}),
              StatusIs(kInvalid, HasSubstr("quorum_grace")));
}

TEST(PushModeTest, BoundedPushNeedsWorkerAndStep) {
  ModeOf mode = Bounded(2, 1);
  PushRequest no_worker = PushBy(0, 1);
  no_worker.worker.reset();

  EXPECT_THAT(mode->CheckPush(no_worker), StatusIs(kInvalid));
  EXPECT_THAT(mode->CheckPush(PushBy(0, 0)), StatusIs(kInvalid));
}

TEST(PushModeTest, BoundedStepsDoNotGoBackwards) {
  ModeOf mode = Bounded(2, 1);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  mode.group.Reach({.rank = 0}, 5);

  EXPECT_OK(mode->CheckKey(*key, PushBy(0, 5)));
  EXPECT_THAT(mode->CheckKey(*key, PushBy(0, 4)),
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("expected 5, which it has reached")),
                    HasReason(Reason::kStepGap)));
}

TEST(PushModeTest, BoundedRepeatIsAnsweredWithTheVersion) {
  ModeOf mode = Bounded(2, 1);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  key->version = 9;
  PushRequest request = PushBy(1, 5);
  request.call_id = CallId{"client", 1};
  mode->Record(*key, request, {});

  ASSERT_OK_AND_ASSIGN(const auto repeat, mode->CheckKey(*key, request));

  ASSERT_TRUE(repeat);
  EXPECT_TRUE(repeat->repeated);
  EXPECT_EQ(repeat->version, 9u);
  request.call_id->client_id = "other";
  EXPECT_THAT(mode->CheckKey(*key, request),
              HasReason(Reason::kContributionExists));
}

// Numbers of ranks that a key makes place for double: placing all takes time in
// proportion to their number.
TEST(PushModeTest, BoundedKeyGrowsByDoubling) {
  ModeOf mode = Bounded(4096, 1);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  int num_growths = 0;

  for (uint32_t rank = 0; rank < 4096; ++rank) {
    if (mode->BytesToRecord(*key, PushBy(rank, 1)) > 0) ++num_growths;
    mode->Record(*key, PushBy(rank, 1), {});
  }

  EXPECT_EQ(num_growths, 13);
}

TEST(PushModeTest, BoundedWorkerAwaitsTheOthers) {
  ModeOf mode = Bounded(2, 3);
  mode.group.Reach({.rank = 0}, 7);
  EXPECT_EQ(mode->AwaitedStep(3), 0u);
  EXPECT_EQ(mode->AwaitedStep(10), 7u);
  EXPECT_THAT(mode->DescribeAwaited(7, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "step 7: waiting for rank 1"));

  mode.group.Reach({.rank = 1}, 7);
  EXPECT_EQ(mode->AwaitedStep(10), 0u);
  EXPECT_EQ(Bounded(2, 0)->AwaitedStep(10), 10u);
}

TEST(PushModeTest, AsyncContributionIsAnUpdateAtOnce) {
  ModeOf mode = ModeOf({});
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});

  const std::optional<PendingUpdate> update =
      OnlyOf(mode->Add(*key, PushRequest(), One(), {}));

  ASSERT_TRUE(update);
  EXPECT_EQ(update->slots.size(), 1u);
  EXPECT_EQ(update->round, 0u);
}

TEST(PushModeTest, AsyncSkipIsNoUpdate) {
  ModeOf mode = ModeOf({});
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});

  EXPECT_TRUE(mode->Add(*key, PushRequest(), {}, {}).empty());
}

TEST(PushModeTest, SyncPushNeedsWorkerAndStep) {
  ModeOf mode = Sync(2);
  PushRequest no_worker = PushBy(0, 1);
  no_worker.worker.reset();

  EXPECT_THAT(mode->CheckPush(no_worker),
              StatusIs(kInvalid, HasSubstr("expected a worker")));
  EXPECT_THAT(mode->CheckPush(PushBy(0, 0)),
              StatusIs(kInvalid, HasSubstr("step of at least 1")));
  EXPECT_OK(mode->CheckPush(PushBy(1, 1)));
}

// One wrong step must not block a key for everybody.
TEST(PushModeTest, SyncStepDoesNotJump) {
  ModeOf mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  const auto gap = HasReason(Reason::kStepGap);
  mode.group.Reach({.rank = 0}, 10);
  PushRequest request = PushBy(1, UINT64_MAX);
  request.entries.push_back({.key = "w"});

  EXPECT_THAT(
      mode->CheckKey(*key, request),
      AllOf(StatusIs(absl::StatusCode::kFailedPrecondition,
                     HasSubstr("expected at most 14, which is max_open_rounds "
                               "above what the group has reached")),
            gap));
  EXPECT_THAT(mode->CheckKey(*key, PushBy(1, 15)), gap);
  EXPECT_OK(mode->CheckKey(*key, PushBy(1, 14)));
}

TEST(PushModeTest, SyncRankMustBeInTheGroup) {
  EXPECT_THAT(Sync(2)->CheckWorker(Worker{2, 0}, absl::ZeroDuration()),
              StatusIs(kInvalid, HasSubstr("rank below 2, got 2")));
}

TEST(PushModeTest, SyncEpochIsFencedOff) {
  EXPECT_THAT(Sync(2)->CheckWorker(Worker{0, 3}, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(PushModeTest, SyncUpdateComesWithTheLastWorker) {
  ModeOf mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  EXPECT_TRUE(mode->NeedsReservation(*key, PushBy(0, 3)));
  mode->Record(*key, PushBy(0, 3), {});

  EXPECT_TRUE(mode->Add(*key, PushBy(0, 3), One(), {}).empty());
  EXPECT_FALSE(mode->NeedsReservation(*key, PushBy(1, 3)));
  const std::optional<PendingUpdate> update =
      OnlyOf(mode->Add(*key, PushBy(1, 3), One(), {}));

  ASSERT_TRUE(update);
  EXPECT_EQ(update->round, 3u);
  EXPECT_EQ(update->slots.size(), 2u);
}

TEST(PushModeTest, SyncWorkerWaitsForItsOwnRoundOnly) {
  ModeOf mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  mode->Record(*key, PushBy(0, 1), {});
  mode->Add(*key, PushBy(0, 1), One(), {});

  EXPECT_TRUE(mode->MustWait(*key, 0, 1));
  EXPECT_FALSE(mode->MustWait(*key, 0, 0)) << "it has contributed since";
  EXPECT_FALSE(mode->MustWait(*key, 1, 1));
  EXPECT_THAT(mode->DescribeWait(*key, 0, absl::ZeroDuration()).message(),
              HasSubstr("waiting for rank 1"));
}

TEST(PushModeTest, SyncWorkerWaitsForTheUpdateOfItsClosedRound) {
  ModeOf mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  for (uint32_t rank : {0, 1}) {
    mode->Record(*key, PushBy(rank, 1), {});
    mode->Add(*key, PushBy(rank, 1), One(), {});
  }
  EXPECT_TRUE(mode->MustWait(*key, 0, 1));

  key->rounds->Apply(1, 2);

  EXPECT_FALSE(mode->MustWait(*key, 0, 1));
}

TEST(PushModeTest, NextStepIsTheLastOneAgain) {
  ModeOf async = ModeOf({});
  ModeOf bounded = Bounded(2, 1);
  ModeOf sync = Sync(2);

  EXPECT_EQ(sync->NextStepOf(0), 1u);
  for (ModeOf* mode : {&async, &bounded, &sync}) {
    mode->group.Reach({.rank = 0}, 5);
  }

  EXPECT_EQ(sync->NextStepOf(0), 5u);
  EXPECT_EQ(bounded->NextStepOf(0), 5u);
  EXPECT_EQ(async->NextStepOf(0), 6u) << "nothing tells a repeat there";
}

}  // namespace push_mode_test
}  // namespace tensorkv
