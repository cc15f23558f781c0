#include "kernels/cuda/stream_lane.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/answer.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::FakeGpu;
using ::testing::HasSubstr;
using testing::StatusIs;

class StreamLaneTest : public ::testing::Test {
 protected:
  // What WhenDone reports of the work so far.
  absl::Status Outcome() {
    Notification done;
    absl::Status outcome;
    lane_->WhenDone([&](absl::Status status) {
      outcome = status;
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }

  FakeGpu gpu_;
  std::unique_ptr<Device> device_ = gpu_.Open();
  std::unique_ptr<StreamLane> lane_ =
      *StreamLane::Create(device_.get(), StreamUse::kCompute);
};

TEST_F(StreamLaneTest, CallbacksComeInOrderAndAfterTheWork) {
  std::vector<int> order;
  gpu_.Hold(StreamUse::kCompute);
  for (int i = 0; i < 3; ++i) {
    lane_->WhenDone([&order, i](absl::Status) { order.push_back(i); });
  }
  gpu_.WaitForQueued(StreamUse::kCompute, 3);

  gpu_.Release(StreamUse::kCompute);
  EXPECT_OK(Outcome());

  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2));
}

TEST_F(StreamLaneTest, EventsAreUsedAgain) {
  for (int i = 0; i < 5; ++i) EXPECT_OK(Outcome());

  EXPECT_EQ(gpu_.usage().num_events, 1);
}

// Calls of Outcome: create, record, wait, and after a failure synchronize.
TEST_F(StreamLaneTest, WorkThatIsDoneIsDoneWhateverItsEventSays) {
  for (int call = 0; call < 3; ++call) {
    gpu_.FailCall(call, absl::InternalError("injected"));
    EXPECT_OK(Outcome());
    lane_ = *StreamLane::Create(device_.get(), StreamUse::kCompute);
  }
  EXPECT_OK(device_->health().status());
}

TEST_F(StreamLaneTest, OtherStreamsAreOrderedBehindWhatIsUnderWay) {
  const auto other = *StreamLane::Create(device_.get(), StreamUse::kToHost);
  const auto order = [&](Stream& stream) { return lane_->OrderBehind(stream); };
  gpu_.Hold(StreamUse::kCompute);
  lane_->WhenDone([](absl::Status) {});
  const Answer<absl::Status> behind;
  EXPECT_OK(other->Run(
      order, [behind](absl::Status status) { behind.Set(std::move(status)); }));
  // The order and the record stay where they are.
  gpu_.WaitForQueued(StreamUse::kToHost, 2);
  EXPECT_FALSE(behind.HasArrived());

  gpu_.Release(StreamUse::kCompute);

  EXPECT_OK(behind.Wait());
  lane_->WaitForCallbacks(lane_->num_started());
}

TEST_F(StreamLaneTest, WhatNobodyWaitsForIsOrderedBefore) {
  const auto other = *StreamLane::Create(device_.get(), StreamUse::kToHost);
  gpu_.Hold(StreamUse::kCompute);
  StreamLane::Mark mark;
  EXPECT_OK(lane_->Enqueue([](Stream&) { return absl::OkStatus(); }, mark));
  EXPECT_EQ(gpu_.num_open_ranges(), 1);
  const Answer<absl::Status> behind;
  EXPECT_OK(other->Run(
      [&](Stream& stream) { return lane_->OrderBehind(stream); },
      [behind](absl::Status status) { behind.Set(std::move(status)); }));
  gpu_.WaitForQueued(StreamUse::kToHost, 2);
  EXPECT_FALSE(behind.HasArrived());

  gpu_.Release(StreamUse::kCompute);

  EXPECT_OK(behind.Wait());
  EXPECT_EQ(gpu_.num_waits(), 1);
  lane_->EndEnqueued(mark);
}

TEST_F(StreamLaneTest, NothingIsOrderedBehindWhatIsKnownToBeOver) {
  const auto other = *device_->CreateStream(StreamUse::kToHost);
  const auto put = [&] {
    StreamLane::Mark mark;
    EXPECT_OK(lane_->Enqueue([](Stream&) { return absl::OkStatus(); }, mark));
    return mark;
  };
  const StreamLane::Mark first = put();
  const StreamLane::Mark second = put();
  gpu_.FailCall(0, absl::InternalError("injected"));

  lane_->EndEnqueued(second);  // so the first is over too
  EXPECT_OK(lane_->OrderBehind(*other));
  lane_->EndEnqueued(first);
  EXPECT_OK(lane_->OrderBehind(*other));

  EXPECT_FALSE(gpu_.has_injected());
  EXPECT_EQ(gpu_.num_open_ranges(), 0);
}

// A call that fails is made up for by waiting.
TEST_F(StreamLaneTest, OrderThatCannotBeGivenIsWaitedFor) {
  const auto other = *StreamLane::Create(device_.get(), StreamUse::kToHost);
  Notification called;
  Notification may_return;
  lane_->WhenDone([&](absl::Status) {
    called.Notify();
    may_return.WaitForNotification();
  });
  called.WaitForNotification();  // so the next call is the order
  gpu_.FailCall(0, absl::InternalError("injected"));

  EXPECT_OK(
      other->Run([&](Stream& stream) { return lane_->OrderBehind(stream); },
                 [](absl::Status) {}));

  EXPECT_TRUE(gpu_.has_injected());
  may_return.Notify();
  lane_->WaitForCallbacks(lane_->num_started());
}

TEST_F(StreamLaneTest, StreamThatCannotBeWaitedForFailsTheDevice) {
  char memory[1];
  gpu_.FailWork(0, absl::InternalError("broken"));
  ASSERT_OK(lane_->Run(
      [&](Stream& stream) { return stream.CopyToHost(memory, memory, 1); },
      [](absl::Status) {}));

  EXPECT_THAT(Outcome(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("broken")));
  EXPECT_THAT(device_->health().status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("broken")));
}

}  // namespace
}  // namespace tensorkv
