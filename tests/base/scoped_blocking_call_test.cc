#include "base/scoped_blocking_call.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

class Counter final : public BlockingObserver {
 public:
  bool BlockingBegins() override {
    ++num_blocked;
    return --num_refusals_left < 0;
  }
  void BlockingEnds() override { --num_blocked; }

  int num_blocked = 0;
  int num_refusals_left = 0;
};

TEST(ScopedBlockingCallTest, OutermostIsTold) {
  Counter counter;
  ScopedBlockingCall::ObserveThisThread(&counter);

  for (int i = 0; i < 2; ++i) {
    const ScopedBlockingCall outer;
    {
      const ScopedBlockingCall inner;
      EXPECT_EQ(counter.num_blocked, 1);
    }
    EXPECT_EQ(counter.num_blocked, 1);
  }
  EXPECT_EQ(counter.num_blocked, 0);

  ScopedBlockingCall::ObserveThisThread(nullptr);
}

TEST(ScopedBlockingCallTest, WaitsForAnotherThreadOrGoesOn) {
  Counter counter;
  ScopedBlockingCall::ObserveThisThread(&counter);

  counter.num_refusals_left = 2;
  {
    const ScopedBlockingCall goes_on;
    EXPECT_EQ(counter.num_refusals_left, 1);
    EXPECT_EQ(counter.num_blocked, 1);
  }
  {
    const ScopedBlockingCall waits(ScopedBlockingCall::IfLast::kWait);
    EXPECT_EQ(counter.num_refusals_left, -1);
    EXPECT_EQ(counter.num_blocked, 1);
  }
  EXPECT_EQ(counter.num_blocked, 0);

  ScopedBlockingCall::ObserveThisThread(nullptr);
}

}  // namespace
}  // namespace tensorkv
