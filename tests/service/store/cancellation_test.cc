#include "service/store/cancellation.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(CancellationTest, LaterStageOfTheCallKeepsItsListener) {
  Cancellation cancellation;
  const uint64_t early = cancellation.TakeTicket();
  bool hears_late = false;

  cancellation.OnCancel([&] { hears_late = true; });
  cancellation.OnCancel(early, [] { FAIL() << "this stage is over"; });
  cancellation.Cancel();

  EXPECT_TRUE(hears_late);
}

TEST(CancellationTest, ListenerThatComesTooLateHearsAtOnce) {
  Cancellation cancellation;
  cancellation.Cancel();
  bool hears = false;

  cancellation.OnCancel([&] { hears = true; });

  EXPECT_TRUE(hears);
  EXPECT_TRUE(cancellation.is_cancelled());
}

}  // namespace
}  // namespace tensorkv
