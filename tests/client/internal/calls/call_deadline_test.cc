#include "client/internal/calls/call_deadline.h"

#include <chrono>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using std::chrono::system_clock;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

system_clock::time_point EndOf(const CallDeadline& deadline) {
  grpc::ClientContext context;
  deadline.ApplyTo(context);
  return context.deadline();
}

gpr_timespec RawEndOf(const CallDeadline& deadline) {
  grpc::ClientContext context;
  deadline.ApplyTo(context);
  return context.raw_deadline();
}

TEST(CallDeadlineTest, EndsALittleAfterTheTimeout) {
  const system_clock::time_point start = system_clock::now();

  const auto left = EndOf(CallDeadline(absl::Seconds(50))) - start;

  EXPECT_GT(left, std::chrono::seconds(50));
  EXPECT_LT(left, std::chrono::seconds(60));
}

TEST(CallDeadlineTest, IsTheSameForAllRpcsOfACall) {
  const CallDeadline deadline(absl::Seconds(50));

  EXPECT_EQ(gpr_time_cmp(RawEndOf(deadline), RawEndOf(deadline)), 0);
}

TEST(CallDeadlineTest, IsNotOnAClockThatSomebodySets) {
  EXPECT_EQ(RawEndOf(CallDeadline(absl::Seconds(50))).clock_type,
            GPR_CLOCK_MONOTONIC);
}

TEST(CallDeadlineTest, InfiniteTimeoutIsNoDeadline) {
  EXPECT_GT(EndOf(CallDeadline(absl::InfiniteDuration())),
            system_clock::now() + std::chrono::hours(24 * 365));
}

TEST(CallDeadlineTest, TellsHowMuchTimeIsLeft) {
  const absl::Duration left = CallDeadline(absl::Seconds(50)).TimeLeft();

  EXPECT_GT(left, absl::Seconds(40));
  EXPECT_LT(left, absl::Seconds(51));
  EXPECT_EQ(CallDeadline(absl::InfiniteDuration()).TimeLeft(),
            absl::InfiniteDuration());
  EXPECT_LT(CallDeadline(-absl::Hours(1)).TimeLeft(), absl::Seconds(1));
}

TEST(CallDeadlineTest, NoTimeLeftIsDeadlineExceeded) {
  EXPECT_THAT(CallDeadline(absl::ZeroDuration()).CheckTimeLeft(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(CallDeadline(-absl::InfiniteDuration()).CheckTimeLeft(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(CallDeadline(absl::Nanoseconds(1)).CheckTimeLeft(), IsOk());
}

TEST(CallDeadlineTest, NothingBeginsOnceTheCallerHasCancelled) {
  const auto canceller = std::make_shared<Canceller>();
  const CallDeadline deadline(absl::Seconds(3), canceller);
  EXPECT_THAT(deadline.CheckTimeLeft(), IsOk());

  canceller->Cancel();

  EXPECT_THAT(deadline.CheckTimeLeft(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("caller")));
}

TEST(CallDeadlineTest, WhatIsMissingMayHaveBeenOnItsWay) {
  const absl::Status too_few = absl::InternalError("too few");
  const CallDeadline over(absl::ZeroDuration());
  const auto canceller = std::make_shared<Canceller>();
  const CallDeadline cancelled(absl::Seconds(3), canceller);
  EXPECT_EQ(cancelled.InTime(too_few), too_few);

  canceller->Cancel();

  while (over.InTime(too_few) == too_few) std::this_thread::yield();
  EXPECT_THAT(over.InTime(absl::OkStatus()), IsOk());
  EXPECT_THAT(over.InTime(too_few),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "no answer from the server within 0"));
  EXPECT_THAT(cancelled.InTime(too_few),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("caller")));
}

TEST(CallDeadlineTest, GrpcsOwnErrorGetsTheTimeout) {
  const CallDeadline deadline(absl::Seconds(3));

  EXPECT_THAT(deadline.StatusOf(
                  {grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "no answer from the server within 3s"));
}

TEST(CallDeadlineTest, BrokenConnectionIsUnavailable) {
  const CallDeadline deadline(absl::Seconds(3));

  EXPECT_THAT(
      deadline.StatusOf({grpc::StatusCode::UNKNOWN, "Stream removed"}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("connection broke")));
  EXPECT_THAT(deadline.StatusOf({grpc::StatusCode::UNKNOWN, "of the server"}),
              StatusIs(absl::StatusCode::kUnknown, "of the server"));
}

TEST(CallDeadlineTest, OtherStatusesStayAsTheyAre) {
  const CallDeadline deadline(absl::Seconds(3));

  EXPECT_THAT(deadline.StatusOf(grpc::Status::OK), IsOk());
  EXPECT_THAT(
      deadline.StatusOf({grpc::StatusCode::DEADLINE_EXCEEDED, "round 7"}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "round 7"));
}

}  // namespace
}  // namespace tensorkv
