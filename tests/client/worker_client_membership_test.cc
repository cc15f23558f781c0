// How a WorkerClient joins, keeps its membership, and leaves.

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "client/worker_client.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_worker.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;

using WorkerMembershipTest = testing::ScriptedWorkerTest;

TEST_F(WorkerMembershipTest, GoesAsLostUnlessItHasLeft) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = kLongLease}));
  EXPECT_EQ(worker->rank(), 1u);
  EXPECT_EQ(worker->epoch(), 5u);
  EXPECT_OK(worker->membership());

  worker.reset();

  EXPECT_THAT(script_.verbs, ElementsAre("DescribeNamespace", "Join", "Leave"));
  EXPECT_TRUE(script_.last<LeaveRequest>().lost());
  EXPECT_EQ(script_.last<LeaveRequest>().namespace_uid(), 17u);
  EXPECT_EQ(script_.last<JoinRequest>().namespace_(), "n");
  EXPECT_EQ(script_.last<JoinRequest>().worker_name(), "w1");
  EXPECT_THAT(DecodeDuration("lease", script_.last<JoinRequest>().lease()),
              IsOkAndHolds(kLongLease));
}

TEST_F(WorkerMembershipTest, RenewsItsLeaseAgainAndAgain) {
  Notification renewed;
  script_.during_call = [&] {
    if (script_.verbs.size() == 5) renewed.Notify();
  };
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = absl::Milliseconds(3)}));

  renewed.WaitForNotification();
  worker.reset();

  EXPECT_EQ(script_.verbs[2], "KeepAlive");
  EXPECT_EQ(script_.verbs[4], "KeepAlive");
  EXPECT_EQ(script_.last<KeepAliveRequest>().worker().epoch(), 5u);
  EXPECT_EQ(script_.last<KeepAliveRequest>().namespace_uid(), 17u);
}

TEST_F(WorkerMembershipTest, SaysThatItsMembershipIsLost) {
  // Renewals that nobody answers say nothing.
  script_.statuses = {absl::OkStatus(), absl::OkStatus(),
                      absl::DeadlineExceededError("no answer"),
                      absl::UnavailableError("down")};
  script_.statuses.resize(1000, absl::FailedPreconditionError("fenced off"));
  Notification renewed_after_loss;
  script_.during_call = [&] {
    if (script_.verbs.size() == 6) renewed_after_loss.Notify();
  };
  std::vector<absl::Status> told;
  ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<WorkerClient> worker,
      Join({.name = "w1",
            .lease = absl::Milliseconds(3),
            .on_membership_lost = [&](const absl::Status& status) {
              told.push_back(status);
            }}));

  renewed_after_loss.WaitForNotification();
  const absl::Status membership = worker->membership();
  worker.reset();

  EXPECT_THAT(membership, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   ::testing::HasSubstr("fenced off")));
  EXPECT_THAT(told, ElementsAre(membership));
}

TEST_F(WorkerMembershipTest, RejoinReplacesItsOwnEpoch) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
  script_.reply<JoinRequest>() =
      testing::JoinedAs({.rank = 1, .epoch = 6}, /*next_step=*/20);

  ASSERT_OK(worker->Rejoin());

  EXPECT_EQ(script_.last<JoinRequest>().replaces_epoch(), 5u);
  EXPECT_EQ(worker->epoch(), 6u);
  EXPECT_EQ(worker->step(), 20u);
}

TEST_F(WorkerMembershipTest, RejoinEndsWithinItsBounds) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
  script_.statuses.resize(100, absl::AlreadyExistsError("a live worker"));
  const absl::Duration begin = now_;
  const auto canceller = std::make_shared<Canceller>();

  EXPECT_THAT(
      worker->Rejoin({.canceller = canceller, .timeout = absl::Seconds(3)}),
      StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(now_ - begin, absl::Seconds(3));
  canceller->Cancel();
  EXPECT_THAT(worker->Rejoin({.canceller = canceller}),
              StatusIs(absl::StatusCode::kCancelled));

  script_.statuses.clear();
}

TEST_F(WorkerMembershipTest, LeavesOnce) {
  for (const LeaveCause cause : {LeaveCause::kDone, LeaveCause::kLost}) {
    std::unique_ptr<WorkerClient> worker = JoinedWorker({});

    EXPECT_OK(worker->Leave(cause));
    worker.reset();

    EXPECT_THAT(script_.verbs, ElementsAre("Leave"));
    EXPECT_EQ(script_.last<LeaveRequest>().lost(), cause == LeaveCause::kLost);
  }
}

TEST_F(WorkerMembershipTest, LeaveThatFailedIsMadeAgainWithItsCause) {
  std::unique_ptr<WorkerClient> worker =
      JoinedWorker({absl::UnavailableError("away")});

  EXPECT_THAT(worker->Leave(), StatusIs(absl::StatusCode::kUnavailable));
  worker.reset();

  EXPECT_THAT(script_.verbs, ElementsAre("Leave", "Leave"));
  EXPECT_FALSE(script_.last<LeaveRequest>().lost());
}

TEST_F(WorkerMembershipTest, DoesNotJoinAgainOnceItHasLeft) {
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({absl::OkStatus(),
                    testing::StatusOfReason(Reason::kLeaseLost, "epoch 5")});
  ASSERT_OK(worker->Leave());

  EXPECT_THAT(worker->Pull({"w"}), HasReason(Reason::kLeaseLost));

  EXPECT_THAT(script_.verbs, ElementsAre("Leave", "Pull"));
}

TEST_F(WorkerMembershipTest, OutlivesTheLeaveOfItsClient) {
  int times_lost = 0;
  ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<WorkerClient> worker,
      Join({.name = "w1",
            .lease = absl::Milliseconds(3),
            .on_membership_lost = [&](const absl::Status&) { ++times_lost; }}));

  ASSERT_OK(worker->client().Leave(kLongLease));
  while (worker->membership().ok()) {
  }

  EXPECT_THAT(worker->membership(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(worker->epoch(), 0u);
  worker.reset();
  EXPECT_EQ(times_lost, 0);
}

TEST_F(WorkerMembershipTest, TakesOverFromItsFormerSelf) {
  script_.statuses = {absl::OkStatus(),
                      absl::AlreadyExistsError("a live worker has that name"),
                      absl::AlreadyExistsError("a live worker has that name")};
  const absl::Duration begin = now_;

  ASSERT_OK(Join({.name = "w1", .takeover_timeout = absl::Minutes(1)}));

  EXPECT_THAT(script_.verbs, ElementsAre("DescribeNamespace", "Join", "Join",
                                         "Join", "Leave"));
  EXPECT_EQ(now_ - begin, absl::Seconds(2));
}

TEST_F(WorkerMembershipTest, TakeoverEndsWithItsTimeoutAndSaysWhoHasTheName) {
  for (const absl::Duration timeout :
       {absl::ZeroDuration(), absl::Seconds(2.5)}) {
    script_.statuses.assign(10, absl::AlreadyExistsError("a live worker"));
    script_.statuses.front() = absl::OkStatus();
    const absl::Duration begin = now_;

    EXPECT_THAT(Join({.name = "w1", .takeover_timeout = timeout}),
                StatusIs(absl::StatusCode::kAlreadyExists));

    EXPECT_EQ(now_ - begin, timeout);
  }
  script_.statuses.clear();
}
}  // namespace
}  // namespace tensorkv
