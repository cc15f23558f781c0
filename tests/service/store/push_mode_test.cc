#include "service/store/push_mode.h"

#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace push_mode_test {

using ::tensorkv::testing::StatusIs;
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
  contribution.slots.emplace_back(*Tensor::Filled(DType::kF32, {1}, 1));
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
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("expected 5, which it has reached")));
}

TEST(PushModeTest, BoundedWorkerAwaitsTheOthers) {
  EXPECT_EQ(Bounded(2, 3)->StepToAwait(3), 0u);
  EXPECT_EQ(Bounded(2, 3)->StepToAwait(10), 7u);
  EXPECT_EQ(Bounded(2, 0)->StepToAwait(10), 10u);
}

TEST(PushModeTest, AsyncContributionIsAnUpdateAtOnce) {
  ModeOf mode = ModeOf({});
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});

  const std::optional<PendingUpdate> update =
      OnlyOf(mode->Admit(*key, PushRequest(), One(), {}));

  ASSERT_TRUE(update);
  EXPECT_EQ(update->slots.size(), 1u);
  EXPECT_EQ(update->round, 0u);
}

TEST(PushModeTest, AsyncSkipIsNoUpdate) {
  ModeOf mode = ModeOf({});
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});

  EXPECT_TRUE(mode->Admit(*key, PushRequest(), {}, {}).empty());
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
  EXPECT_TRUE(mode->NeedsRoom(*key, PushBy(0, 3)));

  EXPECT_TRUE(mode->Admit(*key, PushBy(0, 3), One(), {}).empty());
  EXPECT_FALSE(mode->NeedsRoom(*key, PushBy(1, 3)));
  const std::optional<PendingUpdate> update =
      OnlyOf(mode->Admit(*key, PushBy(1, 3), One(), {}));

  ASSERT_TRUE(update);
  EXPECT_EQ(update->round, 3u);
  EXPECT_EQ(update->slots.size(), 2u);
}

TEST(PushModeTest, SyncWorkerWaitsForItsOwnRoundOnly) {
  ModeOf mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  mode->Admit(*key, PushBy(0, 1), One(), {});

  EXPECT_TRUE(mode->MustWait(*key, Worker{0, 0}));
  EXPECT_FALSE(mode->MustWait(*key, Worker{1, 0}));
  EXPECT_FALSE(mode->MustWait(*key, std::nullopt));
  EXPECT_THAT(mode->DescribeWait(*key, Worker{0, 0}, absl::ZeroDuration()),
              HasSubstr("waiting for rank 1"));
}

TEST(PushModeTest, SyncWorkerWaitsForTheUpdateOfAClosedRound) {
  ModeOf mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  key->is_updating = true;

  EXPECT_TRUE(mode->MustWait(*key, Worker{0, 0}));
  EXPECT_FALSE(mode->MustWait(*key, std::nullopt));
}

}  // namespace push_mode_test
}  // namespace tensorkv
