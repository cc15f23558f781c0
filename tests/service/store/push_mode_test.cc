#include "service/store/push_mode.h"

#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::unique_ptr<PushMode> Sync(uint32_t num_workers) {
  return *PushMode::Create({.mode = Mode::kSync, .num_workers = num_workers});
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
  EXPECT_THAT(PushMode::Create({.mode = Mode::kSync}),
              StatusIs(kInvalid, HasSubstr("1 to 4096, got 0")));
  EXPECT_THAT(PushMode::Create({.mode = Mode::kSync, .num_workers = 5000}),
              StatusIs(kInvalid, HasSubstr("got 5000")));
}

TEST(PushModeTest, OpenRoundsAreBounded) {
  EXPECT_THAT(
      PushMode::Create(
          {.mode = Mode::kSync, .num_workers = 2, .max_open_rounds = 65}),
      StatusIs(kInvalid, HasSubstr("max_open_rounds")));
}

TEST(PushModeTest, BoundedIsUnimplemented) {
  EXPECT_THAT(PushMode::Create({.mode = Mode::kBounded, .num_workers = 2}),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(PushModeTest, AsyncContributionIsAnUpdateAtOnce) {
  const std::unique_ptr<PushMode> mode = *PushMode::Create({});
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});

  const std::optional<PendingUpdate> update =
      mode->Admit(*key, PushRequest(), One(), {});

  ASSERT_TRUE(update);
  EXPECT_EQ(update->slots.size(), 1u);
  EXPECT_EQ(update->round, 0u);
}

TEST(PushModeTest, AsyncSkipIsNoUpdate) {
  const std::unique_ptr<PushMode> mode = *PushMode::Create({});
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});

  EXPECT_FALSE(mode->Admit(*key, PushRequest(), {}, {}));
}

TEST(PushModeTest, SyncPushNeedsWorkerAndStep) {
  const auto mode = Sync(2);
  PushRequest no_worker = PushBy(0, 1);
  no_worker.worker.reset();

  EXPECT_THAT(mode->CheckPush(no_worker),
              StatusIs(kInvalid, HasSubstr("expected a worker")));
  EXPECT_THAT(mode->CheckPush(PushBy(0, 0)),
              StatusIs(kInvalid, HasSubstr("step of at least 1")));
  EXPECT_OK(mode->CheckPush(PushBy(1, 1)));
}

TEST(PushModeTest, SyncRankMustBeInTheGroup) {
  EXPECT_THAT(Sync(2)->CheckPush(PushBy(2, 1)),
              StatusIs(kInvalid, HasSubstr("rank below 2, got 2")));
}

TEST(PushModeTest, SyncEpochIsFencedOff) {
  PushRequest request = PushBy(0, 1);
  request.worker->epoch = 3;

  EXPECT_THAT(Sync(2)->CheckPush(request),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(PushModeTest, SyncUpdateComesWithTheLastWorker) {
  const auto mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  EXPECT_TRUE(mode->NeedsRoom(*key, PushBy(0, 3)));

  EXPECT_FALSE(mode->Admit(*key, PushBy(0, 3), One(), {}));
  EXPECT_FALSE(mode->NeedsRoom(*key, PushBy(1, 3)));
  const std::optional<PendingUpdate> update =
      mode->Admit(*key, PushBy(1, 3), One(), {});

  ASSERT_TRUE(update);
  EXPECT_EQ(update->round, 3u);
  EXPECT_EQ(update->slots.size(), 2u);
}

TEST(PushModeTest, SyncWorkerWaitsForItsOwnRoundOnly) {
  const auto mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  mode->Admit(*key, PushBy(0, 1), One(), {});

  EXPECT_TRUE(mode->MustWait(*key, Worker{0, 0}));
  EXPECT_FALSE(mode->MustWait(*key, Worker{1, 0}));
  EXPECT_FALSE(mode->MustWait(*key, std::nullopt));
  EXPECT_THAT(mode->DescribeWait(*key, Worker{0, 0}),
              HasSubstr("waiting for rank 1"));
}

TEST(PushModeTest, SyncWorkerWaitsForTheUpdateOfAClosedRound) {
  const auto mode = Sync(2);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  key->is_updating = true;

  EXPECT_TRUE(mode->MustWait(*key, Worker{0, 0}));
  EXPECT_FALSE(mode->MustWait(*key, std::nullopt));
}

}  // namespace
}  // namespace tensorkv
