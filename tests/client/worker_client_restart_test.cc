// What a WorkerClient makes of a server that lacks its state or has an earlier
// one.

#include <algorithm>
#include <memory>
#include <string>

#include "client/worker_client.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_worker.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::EncodeAll;
using ::tensorkv::testing::EntriesOf;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;

using WorkerRestartTest = testing::ScriptedWorkerTest;

absl::Status ServerRestarted() {
  return WithReason(absl::FailedPreconditionError("restarted"),
                    Reason::kServerRestarted);
}

// By another incarnation, of an earlier state.
JoinReply JoinedAnew() {
  JoinReply reply = testing::JoinedAs({.rank = 1, .epoch = 6}, /*next_step=*/4);
  reply.set_server_incarnation(2);
  return reply;
}

TEST_F(WorkerRestartTest, EmptiedServerIsAnError) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker(
      {ServerRestarted(), absl::UnavailableError("down"),
       testing::StatusOfReason(Reason::kNamespaceNotFound, "no namespace")});

  EXPECT_THAT(worker->PushPull(7, EntriesOf({"w"})),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       ::testing::HasSubstr("restarted")));

  EXPECT_THAT(script_.verbs, ElementsAre("PushPull", "Join", "Join"));
}

TEST_F(WorkerRestartTest, RestoredServerIsJoinedAgainAndItsStepIsTheNext) {
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({absl::OkStatus(), ServerRestarted()});
  ASSERT_EQ(worker->step(), 7u);
  ASSERT_OK(worker->Push(7, EntriesOf({"v"})));
  script_.reply<JoinRequest>() = JoinedAnew();

  EXPECT_EQ(ReasonOf(worker->PushPull(7, EntriesOf({"w"})).status()),
            Reason::kServerRestarted);

  EXPECT_THAT(script_.verbs, ElementsAre("Push", "PushPull", "Join"));
  EXPECT_EQ(script_.last<JoinRequest>().namespace_uid(), 17u);
  EXPECT_EQ(worker->step(), 4u);
  EXPECT_EQ(worker->state(), WorkerState::kGoneBack);
  EXPECT_EQ(worker->Resume(), 4u);
  EXPECT_EQ(worker->state(), WorkerState::kRepeating);
  ASSERT_OK(worker->PushPull(4, EntriesOf({"w"})));
  EXPECT_EQ(script_.last<PushPullRequest>().step, 4u);
  EXPECT_EQ(script_.last<PushPullRequest>().worker->epoch, 6u);
  EXPECT_EQ(worker->step(), 5u);
}

TEST_F(WorkerRestartTest, StepsMadeAgainAreReadWithoutLaterOnes) {
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({ServerRestarted()});
  ASSERT_EQ(worker->step(), 7u);
  script_.reply<JoinRequest>() = JoinedAnew();
  ASSERT_EQ(ReasonOf(worker->Push(7, EntriesOf({"w"}))),
            Reason::kServerRestarted);
  script_.verbs.clear();

  for (Step step = worker->Resume(); step <= 8; step = worker->Resume()) {
    script_.reply<PushRequest>().results = {{.step = step}};
    ASSERT_OK(worker->Push(step, EntriesOf({"w"})));
    ASSERT_OK(worker->Pull({"w"}));
    const bool is_repeated = step <= 7;
    EXPECT_EQ(script_.last<PullRequest>().worker.has_value(), !is_repeated);
    EXPECT_EQ(script_.last<PushPullRequest>().step, std::min<Step>(step, 7));
  }

  EXPECT_EQ(std::count(script_.verbs.begin(), script_.verbs.end(), "PushPull"),
            4);
}

TEST_F(WorkerRestartTest, FormerSelfsStepsAreReadWithoutLaterOnes) {
  WorkerStatus& former = *script_.reply<DescribeNamespaceRequest>()
                              .mutable_status()
                              ->add_workers();
  former.set_name("w1");
  former.set_step(9);
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});

  ASSERT_OK(worker->Push(worker->Resume(), EntriesOf({"w"})));
  ASSERT_OK(worker->Pull({"w"}));

  EXPECT_THAT(script_.verbs, ElementsAre("Push", "PushPull", "Pull"));
  EXPECT_FALSE(script_.last<PullRequest>().worker.has_value());
}

TEST_F(WorkerRestartTest, WhatWasLeftOutOfAStateThatIsGoneIsForgotten) {
  client_options_.compression = EncodeAll("2bit:1.5");
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({absl::OkStatus(), ServerRestarted()});
  script_.reply<JoinRequest>() = JoinedAnew();
  const auto pushed = [&](Step step) {
    worker->Push(step, EntriesOf({"w"})).IgnoreError();
    return testing::BytesOf(script_.last<PushRequest>().entries[0].tensor);
  };

  // The ones of two pushes together are enough for a code.
  const std::string nothing = pushed(7);
  EXPECT_NE(pushed(8), nothing);
  EXPECT_EQ(worker->Resume(), 4u);
  EXPECT_EQ(pushed(4), nothing);
}

TEST_F(WorkerRestartTest, NothingIsPushedToARestoredServerBeforeItIsResumed) {
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({ServerRestarted()});
  ASSERT_EQ(worker->step(), 7u);
  script_.reply<JoinRequest>() = JoinedAnew();

  const std::vector<absl::Status> refused = {
      worker->Push(7, EntriesOf({"v"})), worker->Push(7, EntriesOf({"w"})),
      worker->PushPull(7, EntriesOf({"x"})).status(),
      worker->Push(4, EntriesOf({"v"}))};

  EXPECT_THAT(script_.verbs, ElementsAre("Push", "Join"));
  for (const absl::Status& status : refused) {
    EXPECT_EQ(ReasonOf(status), Reason::kServerRestarted);
  }
  EXPECT_EQ(worker->Resume(), 4u);
  EXPECT_OK(worker->Push(4, EntriesOf({"v"})));
}

TEST_F(WorkerRestartTest, RestartIsSeenByAllVerbs) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker(
      {ServerRestarted(), absl::OkStatus(), absl::OkStatus(),
       absl::UnavailableError("down"), ServerRestarted(),
       absl::UnavailableError("down"), absl::OkStatus(), absl::OkStatus()});
  script_.reply<JoinRequest>() = JoinedAnew();
  ASSERT_OK(worker->Barrier("start"));
  EXPECT_EQ(worker->Resume(), 4u);
  script_.reply<JoinRequest>().set_server_incarnation(3);
  script_.reply<JoinRequest>().set_next_step(2);

  EXPECT_EQ(ReasonOf(worker->PushPull(4, EntriesOf({"w"})).status()),
            Reason::kServerRestarted);

  EXPECT_THAT(script_.verbs, ElementsAre("Barrier", "Join", "Barrier",
                                         "PushPull", "Push", "Join", "Join"));
  EXPECT_EQ(worker->step(), 2u);
}

TEST_F(WorkerRestartTest, PushOfUnknownOutcomeIsForgottenByARestoredServer) {
  SetMode(v1::MODE_ASYNC);
  const absl::Status unknown = WithReason(
      absl::FailedPreconditionError("unknown"), Reason::kOutcomeUnknown);
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({unknown, absl::OkStatus(), unknown});

  EXPECT_EQ(ReasonOf(worker->Push(7, EntriesOf({"w"}))),
            Reason::kOutcomeUnknown);
  script_.reply<JoinRequest>() = JoinedAnew();
  EXPECT_EQ(ReasonOf(worker->Push(7, EntriesOf({"w"}))),
            Reason::kServerRestarted);

  EXPECT_THAT(script_.verbs, ElementsAre("Push", "Join", "Push", "Join"));
  EXPECT_EQ(worker->step(), 4u);
}

}  // namespace
}  // namespace tensorkv
