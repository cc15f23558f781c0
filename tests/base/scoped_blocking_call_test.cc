#include "base/scoped_blocking_call.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

class Counter final : public BlockingObserver {
 public:
  void BlockingBegins() override { ++num_blocked; }
  void BlockingEnds() override { --num_blocked; }

  int num_blocked = 0;
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

}  // namespace
}  // namespace tensorkv
