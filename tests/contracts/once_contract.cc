// Calls with a call_id: applied once, however often they come.

#include <cstdint>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

NamespaceConfig Accumulating() {
  return {.rule = ParseRuleSpec("accumulate").value()};
}

// Requests of one client about the key "w", numbered by the test.
class NamedCalls {
 public:
  NamedCalls(Connection& connection, std::string name_space)
      : connection_(connection), name_space_(std::move(name_space)) {}

  absl::StatusOr<Version> Init(uint64_t sequence, double value) {
    ASSIGN_OR_RETURN(
        const InitReply reply,
        connection_.Call(InitRequest{.name_space = name_space_,
                                     .call_id = IdOf(sequence),
                                     .entries = {{"w", Full({2}, value)}}},
                         {}));
    return reply.versions.at(0);
  }

  // The next calls tell so.
  void HasAnswersBelow(uint64_t sequence) { answered_below_ = sequence; }

  // By a worker, if it has a step.
  absl::StatusOr<PushResult> Push(uint64_t sequence, double value,
                                  Step step = 0) {
    ASSIGN_OR_RETURN(const PushReply reply,
                     connection_.Call(PushOf(sequence, value, step), {}));
    return reply.results.at(0);
  }

  absl::StatusOr<Value> PushPull(uint64_t sequence, double value, Step step = 0,
                                 const CallOptions& options = {}) {
    ASSIGN_OR_RETURN(
        const PullReply reply,
        connection_.Call(PushPullRequest{PushOf(sequence, value, step)},
                         options));
    return reply.values.at(0);
  }

  absl::StatusOr<Version> SetMomentum(uint64_t sequence, double value) {
    ASSIGN_OR_RETURN(
        const SetStateReply reply,
        connection_.Call(
            SetStateRequest{.name_space = name_space_,
                            .call_id = IdOf(sequence),
                            .entries = {{"w", "momentum", Full({2}, value)}}},
            {}));
    return reply.versions.at(0);
  }

  absl::StatusOr<uint64_t> Delete(uint64_t sequence) {
    DeleteRequest request = DeleteOf({"w"}, name_space_);
    SetCallId(IdOf(sequence), request);
    ASSIGN_OR_RETURN(const DeleteReply reply, connection_.Call(request, {}));
    return reply.num_deleted();
  }

  absl::Status SetRule(uint64_t sequence, const std::string& rule) {
    SetRuleRequest request = SetRuleOf(rule, "", name_space_);
    SetCallId(IdOf(sequence), request);
    return connection_.Call(request, {}).status();
  }

  absl::StatusOr<double> SetLearningRate(uint64_t sequence, double rate) {
    SetHyperparametersRequest request =
        SetHyperparametersOf({{"learning_rate", rate}}, "", name_space_);
    SetCallId(IdOf(sequence), request);
    ASSIGN_OR_RETURN(const SetHyperparametersReply reply,
                     connection_.Call(request, {}));
    return reply.rule().hyperparameters().at("learning_rate");
  }

  absl::StatusOr<double> SetMaxNorm(uint64_t sequence, double max_norm) {
    UpdateNamespaceRequest request =
        UpdateOf(name_space_, {.gradient_guard = {.max_norm = max_norm}},
                 {"gradient_guard.max_norm"});
    SetCallId(IdOf(sequence), request);
    ASSIGN_OR_RETURN(const UpdateNamespaceReply reply,
                     connection_.Call(request, {}));
    return reply.config().gradient_guard().max_norm();
  }

  absl::Status DeleteNamespace(uint64_t sequence, const std::string& name) {
    DeleteNamespaceRequest request = RemoveOf(name);
    SetCallId(IdOf(sequence), request);
    return connection_.Call(request, {}).status();
  }

  absl::Status CreateNamespace(uint64_t sequence, const std::string& name) {
    CreateNamespaceRequest request = CreateOf(name);
    SetCallId(IdOf(sequence), request);
    return connection_.Call(request, {}).status();
  }

 private:
  CallId IdOf(uint64_t sequence) const {
    return {"client", sequence, answered_below_};
  }

  PushRequest PushOf(uint64_t sequence, double value, Step step) {
    PushRequest request = {
        .name_space = name_space_,
        .call_id = IdOf(sequence),
        .step = step,
        .entries = {{.key = "w", .tensor = Full({2}, value)}}};
    if (step > 0) request.worker = Worker{.rank = 0};
    return request;
  }

  Connection& connection_;
  const std::string name_space_;
  uint64_t answered_below_ = 1;
};

TEST_P(OnceContractTest, RepeatedPushIsAppliedOnceAndAnsweredAlike) {
  const Caller sums = NewNamespace("sums", Accumulating());
  NamedCalls calls(connection(), "sums");
  ASSERT_OK(sums.Init("w", Full({2}, 10)));

  EXPECT_THAT(calls.Push(1, 5), IsOkAndHolds(HasVersion(2)));
  EXPECT_THAT(calls.Push(2, 7), IsOkAndHolds(HasVersion(3)));
  EXPECT_THAT(calls.Push(1, 5), IsOkAndHolds(HasVersion(2)));

  EXPECT_THAT(sums.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(3), HasTensor(IsFilledWith(22)))));
}

TEST_P(OnceContractTest, AttemptsAtTheSameTimeAreAppliedOnce) {
  const Caller sums = NewNamespace("sums", Accumulating());
  NamedCalls calls(connection(), "sums");
  ASSERT_OK(sums.Init("w", Full({2}, 0)));

  RunConcurrently(8, [&](int) {
    for (uint64_t sequence = 1; sequence <= 25; ++sequence) {
      EXPECT_THAT(calls.Push(sequence, 1),
                  IsOkAndHolds(HasVersion(sequence + 1)));
    }
  });

  EXPECT_THAT(sums.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(25))));
}

TEST_P(OnceContractTest, RepeatedPushPullBringsThePresentValue) {
  const Caller sums = NewNamespace("sums", Accumulating());
  NamedCalls calls(connection(), "sums");
  ASSERT_OK(sums.Init("w", Full({2}, 10)));

  EXPECT_THAT(calls.PushPull(1, 5), IsOkAndHolds(HasTensor(IsFilledWith(15))));
  ASSERT_OK(sums.Push("w", Full({2}, 1)));
  EXPECT_THAT(calls.PushPull(1, 5), IsOkAndHolds(HasTensor(IsFilledWith(16))));
}

TEST_P(OnceContractTest, RepeatedInitIsNotSurprisedByItself) {
  NamedCalls calls(connection(), "");

  EXPECT_THAT(calls.Init(1, 5), IsOkAndHolds(1));
  EXPECT_THAT(calls.Init(1, 5), IsOkAndHolds(1));
  EXPECT_THAT(calls.Init(2, 5), StatusIs(StatusCode::kAlreadyExists));
}

TEST_P(OnceContractTest, RepeatedSetStateDoesNotUndoWhatCameAfter) {
  NamedCalls calls(connection(), "");
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Init("w", Full({2}, 0)));
  EXPECT_THAT(calls.SetMomentum(1, 8), IsOkAndHolds(1));
  EXPECT_THAT(calls.Push(2, 0), IsOkAndHolds(HasVersion(2)));

  EXPECT_THAT(calls.SetMomentum(1, 8), IsOkAndHolds(1));

  EXPECT_THAT(store_.GetState("w", "momentum"),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(4)))));
  EXPECT_THAT(calls.SetMomentum(1, 7), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(calls.SetMomentum(3, 7), IsOkAndHolds(2));
  EXPECT_THAT(store_.GetState("w", "momentum"),
              IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

TEST_P(OnceContractTest, RepeatedDeleteLeavesTheKeyThatCameAfter) {
  NamedCalls calls(connection(), "");
  ASSERT_OK(calls.Init(1, 5));
  EXPECT_THAT(calls.Delete(2), IsOkAndHolds(1));
  ASSERT_OK(calls.Init(3, 6));

  EXPECT_THAT(calls.Delete(2), IsOkAndHolds(1));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(OnceContractTest, RepeatedSetRuleDoesNotUndoTheNextOne) {
  NamedCalls calls(connection(), "");
  ASSERT_OK(calls.SetRule(1, "sgd"));
  ASSERT_OK(calls.SetRule(2, "accumulate"));

  EXPECT_OK(calls.SetRule(1, "sgd"));

  EXPECT_EQ(store_.Describe()->config().rule().name(), "accumulate");
}

TEST_P(OnceContractTest, RepeatedSetHyperparametersAnswersAsAtFirst) {
  NamedCalls calls(connection(), "");
  ASSERT_OK(calls.SetRule(1, "sgd"));

  EXPECT_THAT(calls.SetLearningRate(2, 0.5), IsOkAndHolds(0.5));
  EXPECT_THAT(calls.SetLearningRate(3, 0.25), IsOkAndHolds(0.25));
  EXPECT_THAT(calls.SetLearningRate(2, 0.5), IsOkAndHolds(0.5));
}

TEST_P(OnceContractTest, RepeatedUpdateNamespaceDoesNotUndoTheNextOne) {
  NamedCalls calls(connection(), "");
  EXPECT_THAT(calls.SetMaxNorm(1, 2), IsOkAndHolds(2));
  EXPECT_THAT(calls.SetMaxNorm(2, 4), IsOkAndHolds(4));

  EXPECT_THAT(calls.SetMaxNorm(1, 2), IsOkAndHolds(2));

  EXPECT_EQ(store_.Describe()->config().gradient_guard().max_norm(), 4);
}

TEST_P(OnceContractTest, RepeatedCreateNamespaceIsNotSurprisedByItself) {
  NamedCalls calls(connection(), "");

  EXPECT_OK(calls.CreateNamespace(1, "n"));
  EXPECT_OK(calls.CreateNamespace(1, "n"));
  EXPECT_THAT(calls.CreateNamespace(2, "n"),
              StatusIs(StatusCode::kAlreadyExists));
}

TEST_P(OnceContractTest, RepeatedDeleteNamespaceRemovesNoSuccessor) {
  NamedCalls calls(connection(), "");
  ASSERT_OK(calls.CreateNamespace(1, "n"));
  EXPECT_OK(calls.DeleteNamespace(2, "n"));
  ASSERT_OK(calls.CreateNamespace(3, "n"));
  ASSERT_OK(store_.In("n").Init("w", Full({2}, 1)));

  EXPECT_OK(calls.DeleteNamespace(2, "n"));

  EXPECT_OK(store_.In("n").Pull("w"));
  EXPECT_OK(calls.DeleteNamespace(4, "n"));
  EXPECT_THAT(store_.In("n").Pull("w"), StatusIs(StatusCode::kNotFound));
}

TEST_P(OnceContractTest, ErrorIsAnsweredAgain) {
  NamedCalls calls(connection(), "");
  EXPECT_THAT(calls.Delete(1), StatusIs(StatusCode::kNotFound));
  ASSERT_OK(store_.Init("w", Full({2}, 1)));

  EXPECT_THAT(calls.Delete(1), StatusIs(StatusCode::kNotFound));
  EXPECT_OK(calls.Delete(2));
}

TEST_P(OnceContractTest, AnotherRequestByTheSameNameIsInvalid) {
  NamedCalls calls(connection(), "");
  ASSERT_OK(calls.Init(1, 5));
  ASSERT_OK(calls.Push(2, 6));

  EXPECT_THAT(calls.Push(2, 7),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("call 2")));
  EXPECT_THAT(calls.PushPull(2, 6), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(OnceContractTest, CallWhoseAnswerItsClientHasIsRefused) {
  const Caller sums = NewNamespace("sums", Accumulating());
  NamedCalls calls(connection(), "sums");
  ASSERT_OK(sums.Init("w", Full({2}, 0)));
  for (uint64_t sequence = 1; sequence <= 200; ++sequence) {
    calls.HasAnswersBelow(sequence);
    ASSERT_OK(calls.Push(sequence, 1));
  }

  calls.HasAnswersBelow(1);
  const absl::Status refused = calls.Push(1, 1).status();

  EXPECT_THAT(refused, StatusIs(StatusCode::kFailedPrecondition,
                                HasSubstr("a sequence of at least 200")));
  EXPECT_EQ(ReasonOf(refused), Reason::kOutcomeUnknown);
  EXPECT_THAT(sums.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(200))));
}

TEST_P(OnceContractTest, CallTellsWhichAnswersItsClientLacks) {
  NamedCalls calls(connection(), "");
  const auto is_refused =
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("expected an answered_below of 1 to 7"));

  for (const uint64_t told : {0, 8}) {
    calls.HasAnswersBelow(told);
    EXPECT_THAT(calls.Init(7, 5), is_refused);
    EXPECT_THAT(calls.CreateNamespace(7, "n"), is_refused);
  }

  EXPECT_THAT(store_.Pull("w"), StatusIs(StatusCode::kNotFound));
}

TEST_P(OnceContractTest, CallsFromAnsweredBelowOnAreBounded) {
  const Caller sums = NewNamespace("sums", Accumulating());
  NamedCalls calls(connection(), "sums");
  ASSERT_OK(sums.Init("w", Full({2}, 0)));
  calls.HasAnswersBelow(3);

  EXPECT_OK(calls.Push(kMaxCallsUnderWay + 2, 1));
  const absl::Status refused = calls.Push(kMaxCallsUnderWay + 3, 1).status();

  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(ReasonOf(refused), Reason::kLimitReached);
  EXPECT_THAT(sums.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_P(OnceContractTest, RepeatThatTellsMoreAnswersIsTheSameCall) {
  const Caller sums = NewNamespace("sums", Accumulating());
  NamedCalls calls(connection(), "sums");
  ASSERT_OK(sums.Init("w", Full({2}, 0)));
  ASSERT_OK(calls.Push(1, 1));
  ASSERT_OK_AND_ASSIGN(const PushResult first, calls.Push(2, 1));
  calls.HasAnswersBelow(2);

  EXPECT_THAT(calls.Push(2, 1), IsOkAndHolds(HasVersion(first.version)));
  EXPECT_THAT(sums.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_P(OnceContractTest, CreateNamespaceIsForgottenWithItsAnswer) {
  NamedCalls calls(connection(), "");
  ASSERT_OK(calls.CreateNamespace(1, "n"));
  calls.HasAnswersBelow(2);
  ASSERT_OK(calls.CreateNamespace(2, "m"));

  calls.HasAnswersBelow(1);
  EXPECT_THAT(calls.CreateNamespace(1, "n"),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("a sequence of at least 2")));
  EXPECT_OK(calls.CreateNamespace(2, "m"));
}

TEST_P(OnceContractTest, RepeatedPushOfAWorkerIsNotASecondContribution) {
  const Caller sync = NewSyncNamespace(2);
  NamedCalls calls(connection(), "sync");
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  ASSERT_OK(calls.Push(1, 5, /*step=*/1));
  ASSERT_OK(calls.Push(1, 5, /*step=*/1));
  EXPECT_OK(calls.Push(2, 7, /*step=*/1)) << "the same client again";
  EXPECT_THAT(sync.As(0).Push("w", Full({2}, 7), 1),
              StatusIs(StatusCode::kAlreadyExists));
  ASSERT_OK(sync.As(1).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(sync.As(1).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(OnceContractTest, RepeatOfAPushPullThatWaitsWaitsToo) {
  const Caller sync = NewSyncNamespace(2);
  NamedCalls calls(connection(), "sync");
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  Background first([&] { return calls.PushPull(1, 5, /*step=*/1); });
  AwaitWaitingCalls(sync, 1);
  Background repeat([&] { return calls.PushPull(1, 5, /*step=*/1); });
  AwaitWaitingCalls(sync, 2);

  ASSERT_OK(sync.As(1).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(first.Result(), IsOkAndHolds(HasTensor(IsFilledWith(6))));
  EXPECT_THAT(repeat.Result(), IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(OnceContractTest, PushPullWhoseWaitEndedGoesOnWhenRepeated) {
  const Caller sync = NewSyncNamespace(2);
  NamedCalls calls(connection(), "sync");
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  CancelOnceItWaits(sync, [&](const auto& canceller) {
    return calls.PushPull(1, 5, /*step=*/1, {.canceller = canceller}).status();
  });

  ASSERT_OK(sync.As(1).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(calls.PushPull(1, 5, /*step=*/1),
              IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(OnceContractTest, RepeatedJoinGivesTheEpochOfTheFirst) {
  NewSyncNamespace(2);
  JoinRequest request = JoinOf("sync", "w", absl::Minutes(1));
  SetCallId(CallId{"client", 1}, request);
  ASSERT_OK_AND_ASSIGN(const JoinReply first, connection().Call(request, {}));

  ASSERT_OK_AND_ASSIGN(const JoinReply repeat, connection().Call(request, {}));

  EXPECT_EQ(repeat.worker().epoch(), first.worker().epoch());
  SetCallId(CallId{"client", 2}, request);
  EXPECT_THAT(connection().Call(request, {}),
              StatusIs(StatusCode::kAlreadyExists));
}

TEST_P(OnceContractTest, RepeatedBarrierDoesNotWaitForTheNextOne) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK_AND_ASSIGN(const Caller one, sync.Join("one"));
  ASSERT_OK_AND_ASSIGN(const Caller two, sync.Join("two"));
  BarrierRequest barrier = BarrierOf("sync", one.worker(), "b");
  SetCallId(CallId{"client", 1}, barrier);
  Background other([&] { return two.Barrier("b"); });
  ASSERT_OK(connection().Call(barrier, {}));
  ASSERT_OK(other.Result());

  EXPECT_OK(connection().Call(barrier, {.timeout = absl::Minutes(1)}));
}

}  // namespace
}  // namespace tensorkv::testing
