#include "client/worker_client.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_connection.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::Script;
using ::tensorkv::testing::ScriptedConnection;
using ::tensorkv::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;

class WorkerClientTest : public ::testing::Test {
 protected:
  WorkerClientTest() {
    script_.join_reply = {.worker = {.rank = 1, .epoch = 5}, .next_step = 8};
    script_.push_reply.results.resize(1);
  }

  absl::StatusOr<std::unique_ptr<WorkerClient>> Join(
      const WorkerOptions& options) {
    return WorkerClient::Join(
        std::make_unique<Client>(std::make_unique<ScriptedConnection>(script_),
                                 ClientOptions{.name_space = "n"}),
        options);
  }

  Script script_;
};

// A lease that no test lives to see renewed.
constexpr absl::Duration kLongLease = absl::Hours(1);

TEST_F(WorkerClientTest, JoinsAndLeaves) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = kLongLease}));
  EXPECT_EQ(worker->rank(), 1u);
  EXPECT_EQ(worker->epoch(), 5u);
  EXPECT_OK(worker->membership());

  worker.reset();

  EXPECT_THAT(script_.verbs, ElementsAre("Join", "Leave"));
  EXPECT_EQ(script_.join.name_space, "n");
  EXPECT_EQ(script_.join.worker_name, "w1");
  EXPECT_EQ(script_.join.lease, kLongLease);
}

TEST_F(WorkerClientTest, CallsAreSignedAndStepsGoOn) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = kLongLease}));

  ASSERT_OK(worker->client().Push("w", Full({2}, 1)));

  EXPECT_EQ(script_.push.worker->epoch, 5u);
  EXPECT_EQ(script_.push.step, 8u);
  EXPECT_EQ(worker->step(), 8u);
}

TEST_F(WorkerClientTest, RenewsItsLeaseAgainAndAgain) {
  Notification renewed;
  script_.during_call = [&] {
    if (script_.verbs.size() == 4) renewed.Notify();
  };
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = absl::Milliseconds(3)}));

  renewed.WaitForNotification();
  worker.reset();

  EXPECT_EQ(script_.verbs[1], "KeepAlive");
  EXPECT_EQ(script_.verbs[3], "KeepAlive");
  EXPECT_EQ(script_.keep_alive.worker.epoch, 5u);
}

TEST_F(WorkerClientTest, SaysThatItsMembershipIsLost) {
  script_.statuses = {absl::OkStatus(),
                      absl::FailedPreconditionError("fenced off")};
  script_.statuses.resize(1000, absl::FailedPreconditionError("fenced off"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = absl::Milliseconds(3)}));

  while (worker->membership().ok()) {
  }

  EXPECT_THAT(worker->membership(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       ::testing::HasSubstr("fenced off")));
}

TEST_F(WorkerClientTest, RejoinTakesTheNewEpochAndStep) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = kLongLease}));
  script_.join_reply = {.worker = {.rank = 1, .epoch = 6}, .next_step = 21};

  ASSERT_OK(worker->Rejoin());

  EXPECT_EQ(worker->epoch(), 6u);
  EXPECT_EQ(worker->step(), 20u);
}

TEST_F(WorkerClientTest, GoesBackToTheStepThatTheServerCounts) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = kLongLease}));
  script_.keep_alive_reply = {.next_step = 4};

  EXPECT_THAT(worker->SyncStep(), IsOkAndHolds(3u));

  EXPECT_EQ(worker->step(), 3u);
}

TEST_F(WorkerClientTest, OutlivesTheLeaveOfItsClient) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = absl::Milliseconds(3)}));

  ASSERT_OK(worker->client().Leave(kLongLease));
  while (worker->membership().ok()) {
  }

  EXPECT_THAT(worker->membership(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(worker->epoch(), 0u);
}

TEST_F(WorkerClientTest, NameThatIsTakenIsRefusedAtOnce) {
  script_.statuses = {absl::AlreadyExistsError("a live worker has that name")};

  EXPECT_THAT(Join({.name = "w1"}), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(script_.verbs, ElementsAre("Join"));
}

TEST_F(WorkerClientTest, TakesOverFromItsFormerSelf) {
  script_.statuses = {absl::AlreadyExistsError("a live worker has that name"),
                      absl::AlreadyExistsError("a live worker has that name")};

  ASSERT_OK_AND_ASSIGN(std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1",
                             .lease = absl::Milliseconds(20),
                             .takeover_timeout = absl::Minutes(1)}));
  worker.reset();

  EXPECT_EQ(script_.verbs[0], "Join");
  EXPECT_EQ(script_.verbs[2], "Join");
  EXPECT_THAT(script_.verbs, Contains("Leave"));
}

TEST_F(WorkerClientTest, BarrierNamesTheWorker) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WorkerClient> worker,
                       Join({.name = "w1", .lease = kLongLease}));

  ASSERT_OK(worker->Barrier("start"));

  EXPECT_EQ(script_.barrier.barrier, "start");
  EXPECT_EQ(script_.barrier.worker.epoch, 5u);
  EXPECT_TRUE(script_.barrier.call_id);
}

}  // namespace
}  // namespace tensorkv
