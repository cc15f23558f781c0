#include "client/internal/transfer/trimmed_pool.h"

#include <deque>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

class TrimmedPoolTest : public ::testing::Test {
 protected:
  static constexpr size_t kMiB = 1 << 20;
  static constexpr absl::Duration kTime = absl::Seconds(10);

  TrimmedPool::RunAfter RunAfter() {
    return [this](absl::Duration pause,
                  const std::shared_ptr<Canceller>& canceller,
                  absl::AnyInvocable<void() &&> then) {
      canceller_ = canceller;
      alarms_.Schedule(alarms_.Now() + pause, std::move(then));
    };
  }
  void Use(size_t bytes) { trimmed_->pool()->Allocate(bytes).value(); }
  size_t idle_bytes() const { return trimmed_->pool()->idle_bytes(); }

  FakeAlarms alarms_;
  std::shared_ptr<Canceller> canceller_;
  std::unique_ptr<TrimmedPool> trimmed_ =
      std::make_unique<TrimmedPool>(64 * kMiB, kTime, RunAfter());
};

TEST_F(TrimmedPoolTest, MemoryThatNobodyUsesGoes) {
  Use(8 * kMiB);
  alarms_.Advance(kTime);
  EXPECT_EQ(idle_bytes(), 8 * kMiB);

  alarms_.Advance(kTime);

  EXPECT_EQ(idle_bytes(), 0);
}

TEST_F(TrimmedPoolTest, MemoryInUseAgainAndAgainStays) {
  Use(8 * kMiB);
  Use(kMiB);
  for (int i = 0; i < 5; ++i) {
    alarms_.Advance(kTime);
    Use(kMiB);
  }

  EXPECT_EQ(idle_bytes(), kMiB);
}

TEST_F(TrimmedPoolTest, NoAlarmIsSetWhereNothingIsIdle) {
  EXPECT_EQ(alarms_.num_pending(), 0);
  Use(1);
  EXPECT_EQ(alarms_.num_pending(), 0);
  Use(kMiB);
  Use(2 * kMiB);
  EXPECT_EQ(alarms_.num_pending(), 1);

  alarms_.Advance(kTime);
  alarms_.Advance(kTime);
  EXPECT_EQ(alarms_.num_pending(), 0);

  Use(kMiB);
  EXPECT_EQ(alarms_.num_pending(), 1);
}

TEST_F(TrimmedPoolTest, AlarmThatIsSetDoesNotKeepThePool) {
  Use(kMiB);

  trimmed_ = nullptr;

  EXPECT_TRUE(canceller_->is_cancelled());
  alarms_.Advance(kTime);
  EXPECT_EQ(alarms_.num_pending(), 0);
}

TEST_F(TrimmedPoolTest, BuffersMayComeBackLater) {
  const RefPtr<BufferPool> pool = trimmed_->pool();
  RefPtr<Buffer> buffer = pool->Allocate(kMiB).value();

  trimmed_ = nullptr;
  buffer = nullptr;

  EXPECT_EQ(pool->idle_bytes(), kMiB);
  EXPECT_EQ(alarms_.num_pending(), 0);
}

TEST_F(TrimmedPoolTest, MemoryMayBeKeptForEver) {
  trimmed_ = std::make_unique<TrimmedPool>(64 * kMiB, absl::InfiniteDuration(),
                                           RunAfter());

  Use(kMiB);

  EXPECT_EQ(alarms_.num_pending(), 0);
}

}  // namespace
}  // namespace tensorkv
