#include "client/call_lanes.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(CallLanesTest, CallsOneAfterAnotherShareALane) {
  CallLanes lanes;
  const CallId first = lanes.Begin().id();
  const CallId second = lanes.Begin().id();

  EXPECT_EQ(second.client_id, first.client_id);
  EXPECT_EQ(first.sequence, 1u);
  EXPECT_EQ(second.sequence, 2u);
}

TEST(CallLanesTest, CallsAtTheSameTimeHaveLanesOfTheirOwn) {
  CallLanes lanes;
  const CallLanes::Place slow = lanes.Begin();
  const CallId other = lanes.Begin().id();

  EXPECT_NE(other.client_id, slow.id().client_id);
  EXPECT_EQ(lanes.Begin().id().sequence, 2u);
}

TEST(CallLanesTest, NameOfACallStays) {
  CallLanes lanes;
  const CallLanes::Place call = lanes.Begin();
  const uint64_t sequence = call.id().sequence;
  lanes.Begin();

  EXPECT_EQ(call.id().sequence, sequence);
}

TEST(CallLanesTest, ClientsHaveNoLaneInCommon) {
  CallLanes one;
  CallLanes other;

  EXPECT_NE(one.Begin().id().client_id, other.Begin().id().client_id);
}

TEST(CallLanesTest, ClientIdsFitTheContract) {
  CallLanes lanes;

  EXPECT_LE(lanes.Begin().id().client_id.size(), 64u);
}

}  // namespace
}  // namespace tensorkv
