#include "client/worker_client.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_worker.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::DestinationOf;
using ::tensorkv::testing::EncodeAll;
using ::tensorkv::testing::EntriesOf;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::RoundFailed;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using WorkerClientTest = testing::ScriptedWorkerTest;

absl::Status LeaseLost() {
  return testing::StatusOfReason(Reason::kLeaseLost, "epoch 5");
}

TEST_F(WorkerClientTest, FailedRoundIsPushedAgainAndAwaited) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({RoundFailed()});

  EXPECT_OK(
      worker->PushPull(7, EntriesOf({"w"}), {.dtype = DType::kF16}).status());

  EXPECT_THAT(script_.verbs, ElementsAre("PushPull", "Push", "Pull"));
  EXPECT_EQ(script_.last<PushPullRequest>().worker->epoch, 5u);
  EXPECT_EQ(script_.last<PushPullRequest>().dtype, DType::kF16);
  EXPECT_EQ(script_.last<PullRequest>().dtype, DType::kF16);
  EXPECT_EQ(script_.last<PushRequest>().step, 7u);
  EXPECT_EQ(worker->step(), 8u);
}

TEST_F(WorkerClientTest, ValuesOfEveryWayComeIntoMemoryOfTheCaller) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({RoundFailed()});
  std::vector<float> memory(2);
  const Destination destination = DestinationOf(memory);
  script_.reply<PullRequest>().values = {{5, Full({2}, 3)}};
  script_.reply<PushPullRequest>().values = {{6, Full({2}, 4)}};

  ASSERT_OK(worker->PushPull(7, EntriesOf({"w"}), {.into = {destination}}));
  EXPECT_EQ(script_.verbs.back(), "Pull");
  EXPECT_THAT(memory, ElementsAre(3, 3));
  ASSERT_OK(worker->PushPull(8, EntriesOf({"w"}), {.into = {destination}}));

  EXPECT_THAT(memory, ElementsAre(4, 4));
}

TEST_F(WorkerClientTest, EveryVerbOfAStepEndsWhenItIsCancelled) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
  const auto canceller = std::make_shared<Canceller>();
  canceller->Cancel();
  const auto is_cancelled = StatusIs(absl::StatusCode::kCancelled);

  EXPECT_THAT(worker->Pull({"w"}, {.canceller = canceller}), is_cancelled);
  EXPECT_THAT(worker->Push(7, EntriesOf({"w"}), {.canceller = canceller}),
              is_cancelled);
  EXPECT_THAT(worker->PushPull(7, EntriesOf({"w"}), {.canceller = canceller}),
              is_cancelled);
  EXPECT_THAT(worker->PullRows({{.key = "w"}}, {.canceller = canceller}),
              is_cancelled);
  EXPECT_THAT(worker->Barrier("start", {.canceller = canceller}), is_cancelled);

  // Nothing is left of the pushes, and other calls go on.
  EXPECT_EQ(worker->step(), 7u);
  EXPECT_OK(worker->Push(7, EntriesOf({"w"})));
}

TEST_F(WorkerClientTest, PushWithoutAStepIsRefused) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});

  EXPECT_THAT(worker->Push(0, EntriesOf({"w"})),
              StatusIs(absl::StatusCode::kInvalidArgument));

  EXPECT_THAT(script_.verbs, IsEmpty());
}

// A reply to a PushPull would not say so.
TEST_F(WorkerClientTest, PushSaysWhatIsCarried) {
  v1::NamespaceConfig& config = *script_.reply<DescribeNamespaceRequest>()
                                     .mutable_status()
                                     ->mutable_config();
  config.set_late(v1::LATE_CARRY);
  config.set_max_open_rounds(4);
  script_.reply<PushRequest>().results = {{.step = 9}};
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});

  EXPECT_OK(worker->PushPull(7, EntriesOf({"w"})));

  EXPECT_THAT(script_.verbs, ElementsAre("Push", "Pull"));
  EXPECT_EQ(worker->step(), 8u);
  // Though a pull of the key has succeeded since.
  script_.statuses = {RoundFailed()};
  script_.verbs.clear();
  EXPECT_OK(worker->Pull({"w"}));
  EXPECT_THAT(script_.verbs, ElementsAre("Pull", "Push", "Pull"));
  EXPECT_EQ(script_.last<PushRequest>().step, 7u);
}

TEST_F(WorkerClientTest, RecoveryEndsWhenItsCallIsCancelled) {
  const absl::Status is_taken = absl::AlreadyExistsError("a live worker");
  const std::vector<std::pair<std::vector<absl::Status>, std::string>> cases = {
      {{RoundFailed(), RoundFailed(), RoundFailed()}, "Push"},
      {{LeaseLost(), is_taken, is_taken}, "Join"}};
  for (const auto& [statuses, last_verb] : cases) {
    const std::unique_ptr<WorkerClient> worker = JoinedWorker(statuses);
    const auto canceller = std::make_shared<Canceller>();
    script_.during_call = [&] {
      if (script_.verbs.size() == 2) canceller->Cancel();
    };

    EXPECT_THAT(worker->PushPull(7, EntriesOf({"w"}), {.canceller = canceller}),
                StatusIs(absl::StatusCode::kCancelled));

    EXPECT_THAT(script_.verbs, ElementsAre("PushPull", last_verb));
    script_.statuses.clear();
    script_.during_call = [] {};
  }
}

TEST_F(WorkerClientTest, WaitForAnotherRecoveryEndsWhenItsCallIsCancelled) {
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({RoundFailed(), RoundFailed()});
  const auto canceller = std::make_shared<Canceller>();
  script_.during_call = [&] {
    // While the recovery pushes again, a call fails, which is cancelled between
    // its end and its wait for that recovery.
    if (script_.verbs.size() == 2) {
      EXPECT_THAT(worker->Pull({"w"}, {.canceller = canceller}),
                  StatusIs(absl::StatusCode::kCancelled));
    }
  };
  at_a_look_ = [&] {
    if (script_.verbs.size() == 3) canceller->Cancel();
  };

  EXPECT_OK(worker->PushPull(7, EntriesOf({"w"})));

  EXPECT_THAT(script_.verbs, ElementsAre("PushPull", "Push", "Pull", "Pull"));
}

TEST_F(WorkerClientTest, RecoveryThatIsCancelledForgetsNoOtherPush) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
  script_.reply<PushRequest>().results.assign(1, {.step = 7});
  ASSERT_OK(worker->Push(7, EntriesOf({"w"})));
  const auto canceller = std::make_shared<Canceller>();
  script_.statuses = {RoundFailed(), RoundFailed()};
  script_.during_call = [&] {
    if (script_.verbs.size() == 3) canceller->Cancel();
  };
  EXPECT_THAT(worker->Pull({"w"}, {.canceller = canceller}),
              StatusIs(absl::StatusCode::kCancelled));

  script_.during_call = [] {};
  script_.statuses = {RoundFailed()};
  EXPECT_OK(worker->Pull({"w"}));

  EXPECT_THAT(script_.verbs,
              ElementsAre("Push", "Pull", "Push", "Pull", "Push", "Pull"));
}

TEST_F(WorkerClientTest, CopiesAreKeptOfWhatItsOwnerWritesAgain) {
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<WorkerClient> worker,
      Join({.name = "w1", .lease = kLongLease, .keeps_copies = true}));
  script_.reply<PushRequest>().results.assign(3, {.step = 7});
  std::vector<PushEntry> entries = EntriesOf({"small", "large", "none"});
  entries[1].tensor = Full({20'000}, 1);
  entries[2].tensor = Full({0}, 1);
  ASSERT_OK(worker->Push(7, entries));

  for (PushEntry& entry : entries) {
    for (float& each : entry.tensor.mutable_elements<float>()) each = 5;
  }
  script_.statuses = {RoundFailed(7, "small"), absl::OkStatus()};
  ASSERT_OK(worker->Pull({"small"}));

  const std::vector<PushEntry>& again = script_.last<PushRequest>().entries;
  ASSERT_EQ(again.size(), 3u);
  EXPECT_THAT(again[0].tensor.elements<float>(), ElementsAre(1, 1));
  EXPECT_THAT(again[1].tensor.elements<float>(), Each(1));
  EXPECT_EQ(again[2].tensor.num_elements(), 0);
}

TEST_F(WorkerClientTest, MemoryOfCopiesIsKeptAsTheClientsOptionsSay) {
  std::vector<absl::Duration> alarms;
  environment_.run_after = [&](absl::Duration delay, const auto&, auto&&) {
    alarms.push_back(delay);
  };
  client_options_.transfer.max_idle_time = absl::Seconds(3);
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<WorkerClient> worker,
      Join({.name = "w1", .lease = kLongLease, .keeps_copies = true}));

  ASSERT_OK(worker->PushPull(7, {{.key = "w", .tensor = Full({20'000}, 1)}}));
  // Until then the script has the copy.
  ASSERT_OK(worker->PushPull(8, "w", Full({2}, 1)));

  EXPECT_THAT(alarms, ElementsAre(absl::Seconds(3)));
}

TEST_F(WorkerClientTest, RowsOfAFailedRoundArePushedAgainAsRows) {
  const RefPtr<const RowIds> ids =
      *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 3));
  script_.reply<PushRowsRequest>().results = {{.step = 7}};
  script_.reply<PullRowsRequest>().values.resize(1);
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({absl::OkStatus(), RoundFailed()});

  ASSERT_OK(
      worker->Push(7, {{.key = "w", .tensor = Full({1, 2}, 1), .rows = ids}}));
  EXPECT_OK(worker->PullRows({{.key = "w", .rows = ids}}));

  EXPECT_THAT(script_.verbs,
              ElementsAre("PushRows", "PullRows", "PushRows", "PullRows"));
  EXPECT_EQ(script_.last<PushRowsRequest>().step, 7u);
  EXPECT_EQ(script_.last<PushRowsRequest>().entries.at(0).rows, ids);
}

TEST_F(WorkerClientTest, LostLeaseIsJoinedAgainAndAllOpenStepsArePushed) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker(
      {absl::OkStatus(), absl::OkStatus(), LeaseLost(), absl::OkStatus()});
  ASSERT_OK(worker->Push(7, EntriesOf({"w"})));
  ASSERT_OK(worker->Push(8, EntriesOf({"w"})));
  std::vector<Step> pushed;
  script_.during_call = [&] {
    if (script_.verbs.back() == "Push")
      pushed.push_back(script_.last<PushRequest>().step);
  };

  EXPECT_THAT(worker->Pull({"w"}), IsOk());

  EXPECT_THAT(script_.verbs, ElementsAre("Push", "Push", "Pull", "Join", "Push",
                                         "Push", "Pull"));
  EXPECT_THAT(pushed, ElementsAre(7u, 8u));
  EXPECT_EQ(worker->step(), 9u);
}

TEST_F(WorkerClientTest, ReplyThatIsLostIsNoError) {
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({absl::UnavailableError("down"),
                    absl::DeadlineExceededError("no answer")});

  EXPECT_THAT(worker->PushPull(7, EntriesOf({"w"})), IsOk());

  EXPECT_THAT(script_.verbs, ElementsAre("PushPull", "Push", "Push", "Pull"));
}

TEST_F(WorkerClientTest, ReplyThatIsLostIsAnErrorWherePushesAreNotKnownAgain) {
  SetMode(v1::MODE_ASYNC);
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({absl::UnavailableError("down")});

  EXPECT_THAT(worker->Push(7, EntriesOf({"w"})),
              StatusIs(absl::StatusCode::kUnavailable));

  EXPECT_THAT(script_.verbs, ElementsAre("Push"));
  EXPECT_EQ(worker->step(), 7u);
}

TEST_F(WorkerClientTest, StepThatClosedIsPushedAgainKeyByKeyOrDropped) {
  const absl::Status closed =
      testing::StatusOfReason(Reason::kStepClosed, "round 7");
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({closed, closed, closed, absl::OkStatus()});
  script_.reply<PushRequest>().results.resize(2);
  script_.reply<PullRequest>().values.resize(3);

  EXPECT_EQ(worker->last_dropped_step(), 0u);
  EXPECT_THAT(worker->PushPull(7, EntriesOf({"gone", "w", "w"})), IsOk());

  EXPECT_THAT(script_.verbs,
              ElementsAre("PushPull", "Push", "Push", "Push", "Pull"));
  const std::vector<PushEntry>& last = script_.last<PushRequest>().entries;
  ASSERT_EQ(last.size(), 2);
  EXPECT_EQ(last[0].key, "w");
  EXPECT_EQ(last[1].key, "w");
  EXPECT_EQ(worker->last_dropped_step(), 7u);
  EXPECT_EQ(worker->step(), 8u);
}

TEST_F(WorkerClientTest, PushesOfAStepAreUpdatesOfTheirOwnInAsyncMode) {
  SetMode(v1::MODE_ASYNC);
  client_options_.compression = EncodeAll("2bit:0.5");
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
  std::vector<std::string> pushed;
  for (int push = 0; push < 2; ++push) {
    ASSERT_OK(worker->Push(7, {{.key = "w", .tensor = Full({4}, 0.3)}}));
    pushed.push_back(
        testing::BytesOf(script_.last<PushRequest>().entries.at(0).tensor));
  }

  EXPECT_THAT(pushed, ElementsAre(std::string(1, '\0'), "\xff"));
}

TEST_F(WorkerClientTest, PushThatIsRefusedInAsyncModeLeavesNothingOut) {
  SetMode(v1::MODE_ASYNC);
  client_options_.compression = EncodeAll("2bit:0.5");
  const std::vector<PushEntry> entries = {
      {.key = "w", .tensor = Full({4}, 0.3)}};
  const std::string codes_of_both = "\xff";
  for (const bool reads : {false, true}) {
    const auto push = [&](WorkerClient& worker) {
      return reads ? worker.PushPull(7, entries).status()
                   : worker.Push(7, entries);
    };
    const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
    for (const absl::Status& status :
         {absl::OkStatus(), absl::InvalidArgumentError("")}) {
      script_.statuses = {status};
      EXPECT_EQ(push(*worker).code(), status.code());
    }

    EXPECT_OK(push(*worker));

    const PushRequest& last =
        reads ? script_.last<PushPullRequest>() : script_.last<PushRequest>();
    EXPECT_EQ(testing::BytesOf(last.entries.at(0).tensor), codes_of_both);
  }
}

TEST_F(WorkerClientTest, WhatIsPushedAgainIsEncodedOnce) {
  for (const char* compression : {"2bit:0.5", "f16"}) {
    client_options_.compression = EncodeAll(compression);
    const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
    constexpr Step kFirst = 7;
    constexpr Step kLast = 16;
    std::map<Step, std::vector<std::string>> pushed;
    script_.during_call = [&] {
      if (script_.verbs.back() != "Push") return;
      const PushRequest& request = script_.last<PushRequest>();
      pushed[request.step].push_back(
          testing::BytesOf(request.entries.at(0).tensor));
    };
    for (Step step = kFirst; step <= kLast; ++step) {
      script_.reply<PushRequest>().results = {{.step = step}};
      ASSERT_OK(worker->Push(
          step, {{.key = "w", .tensor = Full({8}, 0.3003 + 0.01 * step)}}));
    }
    script_.statuses = {LeaseLost()};

    ASSERT_OK(worker->Pull({"w"}));

    EXPECT_EQ(pushed.size(), kLast - kFirst + 1);
    for (const auto& [step, bytes] : pushed) {
      ASSERT_EQ(bytes.size(), 2) << compression << " in step " << step;
      EXPECT_EQ(bytes[0], bytes[1]) << compression << " in step " << step;
    }
    script_.during_call = [] {};
  }
}

TEST_F(WorkerClientTest, RecoveryEndsAfterTheStepTimeout) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
  script_.statuses.resize(10'000, RoundFailed());
  const absl::Duration begin = now_;

  EXPECT_THAT(worker->PushPull(7, EntriesOf({"w"})),
              StatusIs(absl::StatusCode::kAborted));

  EXPECT_GE(now_ - begin, WorkerOptions().step_timeout);
  EXPECT_EQ(worker->step(), 7u);
  script_.statuses.clear();
}

// However long the calls may take.
TEST_F(WorkerClientTest, VerbsEndWithTheStepTimeout) {
  for (const bool waits : {false, true}) {
    client_options_.timeout = absl::Minutes(7);
    const std::unique_ptr<WorkerClient> worker = JoinedWorker({});
    script_.statuses.resize(
        3, waits ? absl::DeadlineExceededError("waited") : LeaseLost());
    script_.timeouts.clear();
    const absl::Duration end = now_ + WorkerOptions().step_timeout;
    script_.during_call = [&] {
      EXPECT_LE(now_ + script_.timeouts.back(), end);
      now_ += script_.timeouts.back();
    };

    EXPECT_FALSE(worker->PushPull(7, EntriesOf({"w"})).ok());

    // After the last attempt is one more pause.
    EXPECT_LE(now_, end + absl::Seconds(1));
    script_.during_call = [] {};
    script_.statuses.clear();
  }
}

// That recovery is another verb's, or Rejoin's, whose own end is later.
TEST_F(WorkerClientTest, WaitForAnotherRecoveryEndsWithTheStepTimeout) {
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({RoundFailed(), RoundFailed()});
  script_.during_call = [&] {
    // While the recovery pushes again, another verb begins, whose call fails
    // when its time is over but for a moment.
    if (script_.verbs.size() == 2) {
      EXPECT_THAT(worker->Pull({"w"}), StatusIs(absl::StatusCode::kAborted));
    } else if (script_.verbs.size() == 3) {
      now_ += WorkerOptions().step_timeout - absl::Milliseconds(1);
    }
  };

  EXPECT_OK(worker->PushPull(7, EntriesOf({"w"})));

  EXPECT_THAT(script_.verbs, ElementsAre("PushPull", "Push", "Pull", "Pull"));
}

TEST_F(WorkerClientTest, FailedRoundWithoutPushesOfTheWorkerIsAnError) {
  for (const absl::Status& failed :
       {RoundFailed(/*step=*/6, "w"), RoundFailed(/*step=*/7, "b")}) {
    const std::unique_ptr<WorkerClient> worker =
        JoinedWorker({absl::OkStatus(), failed});

    EXPECT_OK(worker->Push(7, EntriesOf({"w"})));
    EXPECT_THAT(worker->Pull({"w", "b"}), StatusIs(absl::StatusCode::kAborted));
  }
}

TEST_F(WorkerClientTest, BarrierThatALossEndedIsWaitedForAgain) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker(
      {testing::StatusOfReason(Reason::kWorkerLost, "rank 2"), LeaseLost()});

  EXPECT_OK(worker->Barrier("start"));

  EXPECT_THAT(script_.verbs,
              ElementsAre("Barrier", "Barrier", "Join", "Barrier"));
  EXPECT_EQ(script_.last<BarrierRequest>().barrier(), "start");
  EXPECT_EQ(script_.last<BarrierRequest>().worker().epoch(), 5u);
  EXPECT_TRUE(script_.last<BarrierRequest>().has_call_id());
}

TEST_F(WorkerClientTest, HandsUpThatAWorkerHasLeft) {
  const absl::Status left =
      testing::StatusOfReason(Reason::kWorkerLeft, "rank 2 has left");
  const std::unique_ptr<WorkerClient> worker =
      JoinedWorker({left, absl::OkStatus(), left, left});

  EXPECT_THAT(worker->PushPull(7, EntriesOf({"w"})),
              HasReason(Reason::kWorkerLeft));
  EXPECT_EQ(worker->step(), 7u) << "to be pushed again, if the rank is taken";
  EXPECT_OK(worker->Push(7, EntriesOf({"w"})));
  EXPECT_THAT(worker->Pull({"w"}), HasReason(Reason::kWorkerLeft));
  EXPECT_THAT(worker->Barrier("end"), HasReason(Reason::kWorkerLeft));

  EXPECT_THAT(script_.verbs,
              ElementsAre("PushPull", "Push", "Pull", "Barrier"));
}

TEST_F(WorkerClientTest, VerbThatCannotJoinAgainInTimeSaysWhoHasTheName) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({LeaseLost()});
  script_.statuses.resize(10, absl::AlreadyExistsError("a live worker"));
  const absl::Duration end = now_ + WorkerOptions().step_timeout;
  script_.during_call = [&] {
    if (script_.verbs.size() == 1) now_ = end - absl::Seconds(1);
    if (now_ >= end) script_.statuses = {absl::DeadlineExceededError("late")};
  };

  EXPECT_THAT(worker->PushPull(7, EntriesOf({"w"})),
              StatusIs(absl::StatusCode::kAlreadyExists));

  EXPECT_EQ(now_, end);
  EXPECT_THAT(script_.verbs, ElementsAre("PushPull", "Join"));
  script_.during_call = [] {};
  script_.statuses.clear();
}

}  // namespace
}  // namespace tensorkv
