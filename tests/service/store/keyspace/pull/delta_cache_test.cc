#include "service/store/keyspace/pull/delta_cache.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Found = DeltaCache::Found;

DeltaId IdOf(Version from, Version to) {
  return {.key = "w", .from = from, .to = to, .dtype = DType::kBF16};
}

class Taker final : public DeltaTaker {
 public:
  bool IsWaiting() override { return is_waiting; }
  void Take(size_t index, const CachedDeltaPtr& delta) override {
    taken.emplace_back(index, delta);
  }

  bool is_waiting = true;
  std::vector<std::pair<size_t, CachedDeltaPtr>> taken;
};

constexpr uint64_t kRoom = 10'000;

class DeltaCacheTest : public ::testing::Test {
 protected:
  CachedDeltaPtr DeltaOf(int64_t bytes) {
    Reservation reservation = cache_.Reserve(bytes).value();
    auto delta = MakeRefCounted<CachedDelta>();
    delta->bytes = Tensor::Unchecked(
        DType::kU8, *Shape::Create({bytes}),
        HostBuffer::Allocate(bytes, reservation.account()).value());
    reservation.HandOver();
    return delta;
  }
  Found Get(const DeltaId& id, size_t index = 0) {
    return cache_.Get(id, taker_, index, &found_);
  }
  // Has the cache keep a delta of so many bytes.
  void Encode(const DeltaId& id, int64_t bytes) {
    ASSERT_EQ(Get(id), Found::kMissing);
    cache_.Add(id, DeltaOf(bytes));
  }
  uint64_t used() const { return budgets_.deltas()->used_bytes(); }

  CpuBackend backend_{1};
  FakeAlarms alarms_;
  const ServerBudgets budgets_{kRoom, 0, backend_, 0, kRoom};
  const std::shared_ptr<Taker> taker_ = std::make_shared<Taker>();
  CachedDeltaPtr found_;
  DeltaCache cache_{&budgets_, &alarms_};
};

TEST_F(DeltaCacheTest, OneEncodesADeltaForAllWhoWait) {
  EXPECT_EQ(Get(IdOf(1, 2), 7), Found::kMissing);
  EXPECT_EQ(Get(IdOf(1, 2), 8), Found::kAwaited);
  EXPECT_EQ(Get(IdOf(1, 3)), Found::kMissing);
  EXPECT_THAT(taker_->taken, IsEmpty());

  const CachedDeltaPtr delta = DeltaOf(100);
  cache_.Add(IdOf(1, 2), delta);

  EXPECT_THAT(taker_->taken, ElementsAre(Pair(7, delta), Pair(8, delta)));
  EXPECT_EQ(Get(IdOf(1, 2)), Found::kThere);
  EXPECT_EQ(found_, delta);
  EXPECT_EQ(cache_.num_encoded(), 1);
}

TEST_F(DeltaCacheTest, ThatTheWholeIsSmallerIsKnownToo) {
  ASSERT_EQ(Get(IdOf(1, 2)), Found::kMissing);

  cache_.Add(IdOf(1, 2), nullptr);

  EXPECT_EQ(Get(IdOf(1, 2)), Found::kThere);
  EXPECT_EQ(found_, nullptr);
  EXPECT_GT(used(), 0);
}

TEST_F(DeltaCacheTest, WhatIsAbandonedIsTriedAgain) {
  ASSERT_EQ(Get(IdOf(1, 2), 7), Found::kMissing);

  cache_.Abandon(IdOf(1, 2));

  EXPECT_THAT(taker_->taken, ElementsAre(Pair(7, nullptr)));
  EXPECT_EQ(Get(IdOf(1, 2)), Found::kMissing);
}

TEST_F(DeltaCacheTest, ADeltaThatNobodyWaitsForIsMissingAgain) {
  ASSERT_EQ(Get(IdOf(1, 2)), Found::kMissing);
  ASSERT_EQ(Get(IdOf(1, 2)), Found::kAwaited);
  EXPECT_TRUE(cache_.IsAwaited(IdOf(1, 2)));

  taker_->is_waiting = false;

  EXPECT_FALSE(cache_.IsAwaited(IdOf(1, 2)));
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(Get(IdOf(1, 2)), Found::kMissing);
}

TEST_F(DeltaCacheTest, WhatWasAskedForLastStays) {
  Encode(IdOf(1, 2), 3000);
  Encode(IdOf(1, 3), 3000);
  taker_->taken.clear();
  ASSERT_EQ(Get(IdOf(1, 2)), Found::kThere);
  found_ = nullptr;

  Encode(IdOf(1, 4), 3000);

  taker_->taken.clear();
  EXPECT_EQ(Get(IdOf(1, 2)), Found::kThere);
  EXPECT_EQ(Get(IdOf(1, 4)), Found::kThere);
  found_ = nullptr;
  EXPECT_EQ(Get(IdOf(1, 3)), Found::kMissing);
}

TEST_F(DeltaCacheTest, NothingGoesForWhatHasNoRoomAtAll) {
  Encode(IdOf(1, 2), 3000);
  taker_->taken.clear();

  EXPECT_FALSE(cache_.Reserve(kRoom + 1).ok());

  EXPECT_EQ(Get(IdOf(1, 2)), Found::kThere);
}

TEST_F(DeltaCacheTest, WithoutRoomNothingIsAwaited) {
  ASSERT_OK(budgets_.host()->Reserve(kRoom - 100));

  EXPECT_EQ(Get(IdOf(1, 2)), Found::kNoRoom);

  EXPECT_EQ(used(), 0);
  budgets_.host()->Release(kRoom - 100);
}

TEST_F(DeltaCacheTest, DeltasGoWhenOthersNeedTheRoom) {
  Encode(IdOf(1, 2), 3000);
  Encode(IdOf(1, 3), 3000);
  taker_->taken.clear();
  EXPECT_FALSE(cache_.IsAboveRoom());
  ASSERT_OK(budgets_.host()->Reserve(kRoom - 5000));
  EXPECT_TRUE(cache_.IsAboveRoom());

  EXPECT_TRUE(cache_.Trim());

  EXPECT_FALSE(cache_.IsAboveRoom());
  EXPECT_EQ(Get(IdOf(1, 3)), Found::kThere);
  budgets_.host()->Release(kRoom - 5000);
}

}  // namespace
}  // namespace tensorkv
