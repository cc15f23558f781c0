#include "service/rpc/striped_call.h"

#include <optional>
#include <utility>

#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using testing::Vector;

constexpr absl::Duration kStreamTimeout = absl::Seconds(30);

// Runs tasks where they are submitted.
class InlineTasks final : public TaskRunner {
 public:
  void Stop() override {}
  bool Submit(absl::string_view, Task&& task) override {
    std::move(task)();
    return true;
  }
};

class StripedCallTest : public ::testing::Test {
 protected:
  // How a stripe heard of the end.
  using Outcome = std::optional<absl::StatusOr<StripedCall::Reply>>;

  std::shared_ptr<StripedCall> NewCall(uint32_t num_stripes) {
    return std::make_shared<StripedCall>(num_stripes, kStreamTimeout, &alarms_);
  }

  // A call that keeps what it gets, for the test to answer.
  StripedCall::Preparation Prepare(Tensor tensor = Vector({1, 2})) {
    return [this, tensor]() -> absl::StatusOr<StripedCall::PreparedCall> {
      ++num_prepared_;
      PushRequest push;
      push.entries.push_back({.key = "k", .tensor = tensor});
      return StripedCall::PreparedCall{
          .request = std::move(push),
          .execute =
              [this](StreamedRequest, CallContext context,
                     ReplyCallback<StreamedReply> done) {
                context_ = std::move(context);
                done_ = std::move(done);
              },
          .allocate =
              [this](StreamedRequest&) {
                ++num_allocated_;
                return allocated_;
              }};
    };
  }

  absl::Status Join(StripedCall& call, Stripe stripe, Outcome* outcome,
                    absl::string_view manifest = "m",
                    UploadQueue* uploads = nullptr) {
    return call.Join(
        stripe, manifest, Prepare(),
        [outcome](absl::StatusOr<StripedCall::Reply> end) {
          ASSERT_FALSE(outcome->has_value());
          *outcome = std::move(end);
        },
        uploads);
  }

  // A call of that many bytes on one stream.
  std::shared_ptr<StripedCall> LargeCall(int64_t bytes, Outcome* outcome) {
    auto call = NewCall(1);
    EXPECT_OK(call->Join({0, 1}, "m",
                         Prepare(*Tensor::WithoutData(DType::kU8, {bytes})),
                         [outcome](absl::StatusOr<StripedCall::Reply> end) {
                           *outcome = std::move(end);
                         }));
    return call;
  }

  // A call of two stripes that is being made.
  std::shared_ptr<StripedCall> CallBeingMade(Outcome* first, Outcome* second) {
    auto call = NewCall(2);
    EXPECT_OK(Join(*call, {0, 2}, first));
    EXPECT_OK(Join(*call, {1, 2}, second));
    call->Complete(0, absl::Seconds(5));
    call->Complete(1, absl::Seconds(5));
    return call;
  }

  FakeAlarms alarms_;
  int num_prepared_ = 0;
  int num_allocated_ = 0;
  // What calls hear that are given memory.
  absl::Status allocated_;
  CallContext context_;
  ReplyCallback<StreamedReply> done_;
};

TEST_F(StripedCallTest, IsMadeWhenTheLastStripeIsComplete) {
  const auto call = NewCall(2);
  Outcome first, second;
  ASSERT_OK(Join(*call, {0, 2}, &first));
  ASSERT_OK(Join(*call, {1, 2}, &second));

  call->Complete(1, absl::Seconds(9));
  EXPECT_FALSE(done_);
  call->Complete(0, absl::Seconds(5));
  ASSERT_TRUE(done_);
  std::move(done_)(StreamedReply(PushReply{{{.version = 7}}}));

  EXPECT_EQ(num_prepared_, 1);
  EXPECT_EQ(context_.timeout, absl::Seconds(5));
  ASSERT_THAT(*first, IsOk());
  EXPECT_EQ(std::get<PushReply>(***first).results[0].version, 7u);
  EXPECT_EQ(**first, **second);
}

TEST_F(StripedCallTest, PreparationThatFailsFailsEveryStripe) {
  const auto call = NewCall(2);
  const auto fail = [] { return absl::NotFoundError("key \"k\""); };

  EXPECT_THAT(call->Join({0, 2}, "m", fail, nullptr),
              StatusIs(absl::StatusCode::kNotFound));

  EXPECT_THAT(call->Join({1, 2}, "m", fail, nullptr),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(StripedCallTest, StripeWithAnotherManifestIsRefused) {
  const auto call = NewCall(2);
  Outcome first, second;
  ASSERT_OK(Join(*call, {0, 2}, &first));

  EXPECT_THAT(Join(*call, {1, 2}, &second, "other"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stripe 1: expected the manifest")));
  EXPECT_THAT(Join(*call, {1, 3}, &second),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected one of 2")));
}

TEST_F(StripedCallTest, StripeThatIsThereIsRefused) {
  const auto call = NewCall(2);
  Outcome first, second;
  ASSERT_OK(Join(*call, {0, 2}, &first));

  const absl::Status refused = Join(*call, {0, 2}, &second);

  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(refused, testing::HasReason(Reason::kStripeExists));
  EXPECT_FALSE(first.has_value());
}

TEST_F(StripedCallTest, StripeThatFailsEndsTheOthersWithItsReason) {
  const auto call = NewCall(2);
  Outcome first, second;
  ASSERT_OK(Join(*call, {0, 2}, &first));
  ASSERT_OK(Join(*call, {1, 2}, &second));
  call->Complete(0, absl::Seconds(5));

  call->Fail(1, absl::InvalidArgumentError("part: too long"));
  call->Complete(1, absl::Seconds(5));

  EXPECT_FALSE(done_);
  EXPECT_THAT(*first, StatusIs(absl::StatusCode::kAborted,
                               HasSubstr("stripe 1 of 2 failed: part: too")));
  EXPECT_THAT(first->status(), testing::HasReason(Reason::kStripeFailed));
  EXPECT_THAT(*second, StatusIs(absl::StatusCode::kInvalidArgument));
}

// A client must not take it for its own fate: it repeats a call for what became
// of the stripe that failed.
TEST_F(StripedCallTest, StripeThatComesAfterAFailureHearsWhichFailed) {
  const auto call = NewCall(2);
  Outcome first, second;
  ASSERT_OK(Join(*call, {0, 2}, &first));
  call->Fail(0, absl::CancelledError("gone"));

  EXPECT_THAT(
      Join(*call, {1, 2}, &second),
      StatusIs(absl::StatusCode::kAborted, "stripe 0 of 2 failed: gone"));
  EXPECT_THAT(*first, StatusIs(absl::StatusCode::kCancelled, "gone"));
}

TEST_F(StripedCallTest, FailureCancelsACallThatWaits) {
  const auto call = NewCall(1);
  Outcome outcome;
  ASSERT_OK(Join(*call, {0, 1}, &outcome));
  call->Complete(0, absl::Seconds(5));

  call->Fail(0, absl::CancelledError("gone"));

  EXPECT_TRUE(context_.cancellation->is_cancelled());
  std::move(done_)(absl::CancelledError("late"));
  EXPECT_THAT(*outcome, StatusIs(absl::StatusCode::kCancelled, "gone"));
}

TEST_F(StripedCallTest, StripeThatIsLostWhileTheCallIsMadeIsLostAlone) {
  Outcome first, second;
  const auto call = CallBeingMade(&first, &second);

  call->Fail(1, absl::CancelledError("gone"));

  EXPECT_THAT(*second, StatusIs(absl::StatusCode::kCancelled, "gone"));
  EXPECT_FALSE(first.has_value());
  EXPECT_FALSE(context_.cancellation->is_cancelled());
  std::move(done_)(StreamedReply(PushReply{{{.version = 7}}}));
  EXPECT_THAT(*first, IsOk());
}

TEST_F(StripedCallTest, LastStripeThatIsLostEndsTheWait) {
  Outcome first, second;
  const auto call = CallBeingMade(&first, &second);

  call->Fail(0, absl::CancelledError("gone"));
  call->Fail(0, absl::CancelledError("gone again"));
  EXPECT_FALSE(context_.cancellation->is_cancelled());
  call->Fail(1, absl::CancelledError("gone too"));

  EXPECT_TRUE(context_.cancellation->is_cancelled());
}

TEST_F(StripedCallTest, StripesThatNeverComeAreNamed) {
  const auto call = NewCall(3);
  Outcome outcome;
  ASSERT_OK(Join(*call, {1, 3}, &outcome));
  call->Complete(1, absl::Seconds(5));

  alarms_.Advance(kStreamTimeout);

  EXPECT_THAT(*outcome,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("stripes 0, 2 of 3 did not come within 30s")));
  EXPECT_THAT(outcome->status(), testing::HasReason(Reason::kPeerTooSlow));
  Outcome late;
  EXPECT_THAT(Join(*call, {0, 3}, &late),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(StripedCallTest, StripesThatAllCameMayTakeTheirTime) {
  const auto call = NewCall(2);
  Outcome first, second;
  ASSERT_OK(Join(*call, {0, 2}, &first));
  ASSERT_OK(Join(*call, {1, 2}, &second));

  alarms_.Advance(2 * kStreamTimeout);

  EXPECT_FALSE(first.has_value());
}

// With the call's mutex held, this test would not end.
TEST_F(StripedCallTest, StripesThatComeWhileTheCallIsPreparedWait) {
  const auto call = NewCall(2);
  Outcome first, second;
  bool is_ready = false;
  const auto prepare = [&] {
    EXPECT_OK(Join(*call, {1, 2}, &second));
    call->WhenPrepared([&] { is_ready = true; });
    EXPECT_FALSE(is_ready);
    return Prepare()();
  };

  ASSERT_OK(call->Join(
      {0, 2}, "m", prepare,
      [&](absl::StatusOr<StripedCall::Reply> end) { first = std::move(end); }));

  EXPECT_TRUE(is_ready);
  EXPECT_EQ(call->tensors().size(), 1u);
  EXPECT_EQ(num_prepared_, 1);
}

TEST_F(StripedCallTest, StripeThatFailsWhileTheCallIsPreparedEndsIt) {
  const auto call = NewCall(2);
  Outcome second;
  bool is_ready = false;
  const auto prepare = [&] {
    EXPECT_OK(Join(*call, {1, 2}, &second));
    call->WhenPrepared([&] { is_ready = true; });
    call->Fail(1, absl::CancelledError("gone"));
    return Prepare()();
  };

  EXPECT_THAT(call->Join({0, 2}, "m", prepare, [](auto) {}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("gone")));

  EXPECT_TRUE(is_ready);
  EXPECT_TRUE(call->tensors().empty());
  EXPECT_THAT(*second, StatusIs(absl::StatusCode::kCancelled, "gone"));
}

TEST_F(StripedCallTest, PeerThatDoesNotPayForItsRoomHasItForSeconds) {
  Outcome outcome;
  const auto call = LargeCall(int64_t{4} << 30, &outcome);
  call->AddReceived(40);

  alarms_.Advance(absl::Seconds(5));
  EXPECT_FALSE(outcome.has_value());
  alarms_.Advance(absl::Seconds(2));

  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(*outcome, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 HasSubstr("expected 4294967296 bytes at "
                                           "1193046 a second or more, got 40 "
                                           "in")));
  EXPECT_THAT(outcome->status(), testing::HasReason(Reason::kPeerTooSlow));
}

TEST_F(StripedCallTest, PeerThatSlowsDownIsCutOffWithinAnHour) {
  Outcome outcome;
  const auto call = LargeCall(int64_t{4} << 30, &outcome);
  call->AddReceived(int64_t{2} << 30);

  alarms_.Advance(absl::Minutes(30));
  EXPECT_FALSE(outcome.has_value());
  alarms_.Advance(absl::Minutes(1));

  EXPECT_TRUE(outcome.has_value());
}

TEST_F(StripedCallTest, GibibyteOverASlowLinkIsTaken) {
  Outcome outcome;
  const auto call = LargeCall(int64_t{1} << 30, &outcome);

  for (int second = 0; second < 1073; ++second) {
    call->AddReceived(1'000'000);
    alarms_.Advance(absl::Seconds(1));
  }
  call->AddReceived(741'824);
  call->Complete(0, absl::Seconds(5));
  alarms_.Advance(absl::Hours(2));

  EXPECT_FALSE(outcome.has_value());
  EXPECT_TRUE(done_);
  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(StripedCallTest, IsNotKeptByWhatListensForItsCancellation) {
  auto call = NewCall(1);
  const std::weak_ptr<StripedCall> watched = call;
  Outcome outcome;
  ASSERT_OK(Join(*call, {0, 1}, &outcome));
  call->Complete(0, absl::Seconds(5));
  const auto kept = std::make_shared<ReplyCallback<StreamedReply>>(
      std::exchange(done_, nullptr));
  std::exchange(context_.cancellation, nullptr)->OnCancel([kept] {});

  std::move (*kept)(StreamedReply(PushReply()));
  call.reset();

  EXPECT_TRUE(outcome && outcome->ok());
  EXPECT_TRUE(watched.expired());
}

TEST_F(StripedCallTest, DropsItsAlarm) {
  auto call = NewCall(2);
  Outcome first;
  ASSERT_OK(Join(*call, {0, 2}, &first));
  ASSERT_EQ(alarms_.num_pending(), 1u);

  call.reset();

  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(StripedCallTest, WaitsForAPlaceBeforeItTakesMemory) {
  InlineTasks tasks;
  UploadQueue uploads(1, &tasks);
  const auto first = NewCall(1), second = NewCall(2), third = NewCall(1);
  Outcome outcomes[4];
  int num_ready = 0;
  const auto count = [&num_ready] { ++num_ready; };
  ASSERT_OK(Join(*first, {0, 1}, &outcomes[0], "m", &uploads));
  EXPECT_EQ(num_allocated_, 1);
  // Another stripe of the call that waits, waits with it.
  ASSERT_OK(Join(*second, {0, 2}, &outcomes[1], "m", &uploads));
  ASSERT_OK(Join(*second, {1, 2}, &outcomes[2], "m", &uploads));
  ASSERT_OK(Join(*third, {0, 1}, &outcomes[3], "m", &uploads));
  second->WhenPrepared(count);
  second->WhenPrepared(count);
  third->WhenPrepared(count);
  EXPECT_EQ(num_allocated_, 1);
  EXPECT_EQ(num_ready, 0);

  // Its stripes hear of the end at once.
  second->Fail(1, absl::CancelledError("gone"));
  EXPECT_EQ(num_ready, 2);
  EXPECT_THAT(outcomes[1]->status(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(outcomes[2]->status(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(num_allocated_, 1);
  // It has left the queue.
  EXPECT_EQ(uploads.num_waiting(), 1u);

  // The place is free once all has come, be it that the call waits then.
  first->Complete(0, absl::Seconds(5));
  EXPECT_EQ(num_allocated_, 2);
  EXPECT_EQ(num_ready, 3);
  EXPECT_FALSE(outcomes[0]);
}

TEST_F(StripedCallTest, CallsThatGetNoMemoryInTheirTurnLeaveThePlace) {
  InlineTasks tasks;
  UploadQueue uploads(1, &tasks);
  Outcome outcomes[3];
  const auto first = NewCall(1), second = NewCall(1), third = NewCall(1);
  ASSERT_OK(Join(*first, {0, 1}, &outcomes[0], "m", &uploads));
  ASSERT_OK(Join(*second, {0, 1}, &outcomes[1], "m", &uploads));
  ASSERT_OK(Join(*third, {0, 1}, &outcomes[2], "m", &uploads));
  allocated_ = absl::ResourceExhaustedError("no memory");

  first->Complete(0, absl::Seconds(5));

  for (const int i : {1, 2}) {
    EXPECT_THAT(outcomes[i]->status(),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_FALSE(outcomes[0]);
  EXPECT_EQ(uploads.num_waiting(), 0u);
}

}  // namespace
}  // namespace tensorkv
