#include "service/server/memory_releaser.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FakeMemory final : public FreeMemory {
 public:
  size_t bytes() const override { return free; }
  void Release(size_t bytes) override {
    released.push_back(bytes);
    free -= bytes;
  }

  size_t free = 0;
  std::vector<size_t> released;
};

class MemoryReleaserTest : public ::testing::Test {
 protected:
  void PassPeriods(int count) {
    for (int i = 0; i < count; ++i) alarms_.Advance(kPeriod);
  }

  static constexpr absl::Duration kPeriod = absl::Milliseconds(100);
  static constexpr int kWindow = MemoryReleaser::kLooksPerWindow;
  FakeMemory memory_;
  FakeAlarms alarms_;
};

TEST_F(MemoryReleaserTest, ReleasesWhatWasFreeThroughAWindow) {
  MemoryReleaser releaser(kWindow * kPeriod, &memory_, &alarms_);
  memory_.free = 100;

  PassPeriods(kWindow - 1);
  EXPECT_THAT(memory_.released, IsEmpty());
  PassPeriods(1);

  EXPECT_THAT(memory_.released, ElementsAre(100));
}

// Others need pages meanwhile.
TEST_F(MemoryReleaserTest, ReleasesALotInSlices) {
  constexpr size_t kSlice = MemoryReleaser::kSliceBytes;
  MemoryReleaser releaser(kWindow * kPeriod, &memory_, &alarms_);
  memory_.free = 2 * kSlice + 7;

  PassPeriods(kWindow);
  EXPECT_THAT(memory_.released, ElementsAre(kSlice));
  alarms_.Advance(MemoryReleaser::kPause);
  EXPECT_THAT(memory_.released, ElementsAre(kSlice, kSlice));
  alarms_.Advance(MemoryReleaser::kPause);

  EXPECT_THAT(memory_.released, ElementsAre(kSlice, kSlice, 7));
  PassPeriods(kWindow);
  EXPECT_EQ(memory_.released.size(), 3u);
}

TEST_F(MemoryReleaserTest, KeepsWhatWasUsedMeanwhile) {
  MemoryReleaser releaser(kWindow * kPeriod, &memory_, &alarms_);
  memory_.free = 100;
  PassPeriods(kWindow / 2);
  memory_.free = 30;
  PassPeriods(1);
  memory_.free = 100;

  PassPeriods(kWindow - kWindow / 2 - 1);

  EXPECT_THAT(memory_.released, ElementsAre(30));
}

TEST_F(MemoryReleaserTest, EveryWindowCountsAlone) {
  MemoryReleaser releaser(kWindow * kPeriod, &memory_, &alarms_);
  PassPeriods(kWindow);
  memory_.free = 50;

  PassPeriods(kWindow);

  EXPECT_THAT(memory_.released, ElementsAre(50));
}

TEST_F(MemoryReleaserTest, LooksNoMoreAfterItsEnd) {
  {
    MemoryReleaser releaser(kWindow * kPeriod, &memory_, &alarms_);
    EXPECT_EQ(alarms_.num_pending(), 1u);
  }

  EXPECT_EQ(alarms_.num_pending(), 0u);
}

}  // namespace
}  // namespace tensorkv
