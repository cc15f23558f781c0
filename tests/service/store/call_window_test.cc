#include "service/store/call_window.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using absl::StatusCode;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

// Answers of these tests are counts.
CallReply ReplyOf(uint64_t count) {
  DeleteReply reply;
  reply.set_num_deleted(count);
  return reply;
}

// How an attempt of a call went: it waits, is under way, or was refused.
struct Attempt {
  std::optional<absl::Status> error;
  std::optional<CallWindow::Attempt> attempt;

  bool is_under_way() const { return attempt.has_value(); }
  bool is_waiting() const { return !error && !attempt; }
  // The answer found; 0 for none.
  uint64_t found() const {
    const CallAnswer* answer = attempt->answer();
    if (answer == nullptr) return 0;
    return std::get<DeleteReply>(**answer).num_deleted();
  }
  void Keep(uint64_t count) { attempt->Keep(ReplyOf(count)); }
};

class CallWindowTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBudgetBytes = 100'000;

  CallWindowTest() { Open({}); }

  // Starts anew, with other options.
  void Open(const CallWindowOptions& options) {
    window_ = CallWindow::Create(options, &alarms_, account_);
  }

  // The Attempt lives as long as it may begin.
  std::shared_ptr<Attempt> Enter(uint64_t sequence,
                                 const std::string& client = "c",
                                 CallContext context = {},
                                 uint64_t fingerprint = 7) {
    auto attempt = std::make_shared<Attempt>();
    window_->Enter(
        {{client, sequence, answered_below_}, fingerprint, answer_bytes_},
        context, [its = attempt](absl::StatusOr<CallWindow::Attempt> attempt) {
          if (attempt.ok()) {
            its->attempt.emplace(*std::move(attempt));
          } else {
            its->error = attempt.status();
          }
        });
    return attempt;
  }

  // A whole call, which answers with its sequence.
  void Make(uint64_t sequence, const std::string& client = "c") {
    const auto attempt = Enter(sequence, client);
    ASSERT_TRUE(attempt->is_under_way());
    attempt->Keep(sequence);
  }

  // Opens another window, with what this one has saved.
  void Reopen(const CallWindowOptions& options = {}) {
    const std::vector<ClientSnapshot> saved =
        window_->Save([](absl::Duration) {});
    Open(options);
    ASSERT_OK(window_->Restore(saved));
  }

  static auto IsUnknown() {
    return StatusIs(StatusCode::kFailedPrecondition,
                    HasSubstr("nobody can tell"));
  }

  // What the next calls tell.
  uint64_t answered_below_ = 1;
  uint64_t answer_bytes_ = 0;
  FakeAlarms alarms_;
  RefPtr<ByteBudget> budget_ = MakeRefCounted<ByteBudget>("test", kBudgetBytes);
  RefPtr<BudgetAccount> account_ = MakeRefCounted<BudgetAccount>(budget_);
  std::shared_ptr<CallWindow> window_;
};

TEST_F(CallWindowTest, CallsOfOtherClientsAndCallersAreOtherCalls) {
  Make(1, "c");

  EXPECT_EQ(Enter(1, "d")->attempt->answer(), nullptr);
  EXPECT_EQ(Enter(1, "c", {.caller = {"mallory"}})->attempt->answer(), nullptr);
  EXPECT_THAT(window_->Knows({"eve"}, {"c", 1}), IsOkAndHolds(false));
}

TEST_F(CallWindowTest, CallThatKeptNothingHasNotHappened) {
  Enter(1).reset();

  EXPECT_EQ(Enter(1)->attempt->answer(), nullptr);
  EXPECT_THAT(window_->Knows({}, {"c", 1}), IsOkAndHolds(false));
}

TEST_F(CallWindowTest, ClientWhoseOnlyCallHasNotHappenedIsForgotten) {
  Enter(1).reset();
  answer_bytes_ = kBudgetBytes;
  EXPECT_TRUE(Enter(1)->error);

  EXPECT_EQ(account_->used_bytes(), 0u);
}

TEST_F(CallWindowTest, RepeatWaitsForTheAttemptUnderWay) {
  const auto first = Enter(1);
  const auto repeat = Enter(1);
  EXPECT_TRUE(repeat->is_waiting());

  first->Keep(9);
  first->attempt->End();

  ASSERT_TRUE(repeat->is_under_way());
  EXPECT_EQ(repeat->found(), 9u);
}

TEST_F(CallWindowTest, RepeatsTakeTurnsToMakeTheCallThatTheFirstDidNot) {
  const auto first = Enter(1);
  const auto second = Enter(1);
  const auto third = Enter(1);

  first->attempt->End();

  ASSERT_TRUE(second->is_under_way());
  EXPECT_EQ(second->attempt->answer(), nullptr);
  EXPECT_TRUE(third->is_waiting());
}

TEST_F(CallWindowTest, RepeatGoesOnAfterTheAnswerToTheFirst) {
  const auto first = Enter(1);
  const auto repeat = Enter(1);
  std::optional<bool> goes_on_before;

  first->attempt->End([&] { goes_on_before = !repeat->is_waiting(); });

  EXPECT_EQ(goes_on_before, false);
  EXPECT_TRUE(repeat->is_under_way());
}

TEST_F(CallWindowTest, CountsTheWaits) {
  const auto first = Enter(1);
  const auto second = Enter(1);
  const auto third = Enter(1);
  EXPECT_EQ(window_->waits().reason, WaitReason::kAttempt);
  EXPECT_EQ(window_->waits().calls_waiting, 2u);
  EXPECT_EQ(window_->waits().calls_ended, 0u);

  alarms_.Advance(absl::Seconds(3));
  first->attempt->End();
  EXPECT_EQ(window_->waits().calls_waiting, 1u);
  EXPECT_EQ(window_->waits().calls_ended, 1u);
  EXPECT_EQ(window_->waits().waited, absl::Seconds(3));

  window_->EndWaits(absl::UnavailableError("stop"));
  EXPECT_EQ(window_->waits().calls_waiting, 0u);
  EXPECT_EQ(window_->waits().calls_ended, 2u);
  EXPECT_EQ(window_->waits().waited, absl::Seconds(6));
}

TEST_F(CallWindowTest, WaitEndsAtTheDeadlineAndNamesTheCall) {
  const auto first = Enter(17, "\x01\xab");
  const auto repeat = Enter(17, "\x01\xab", {.timeout = absl::Seconds(3)});

  alarms_.Advance(absl::Seconds(3));

  ASSERT_TRUE(repeat->error);
  EXPECT_THAT(*repeat->error,
              StatusIs(StatusCode::kDeadlineExceeded,
                       HasSubstr("waited 3s: an earlier attempt of call 17 of "
                                 "client 01ab")));
}

TEST_F(CallWindowTest, WaitEndsAtTheWindowsBound) {
  Open({.max_wait = absl::Seconds(2)});
  const auto first = Enter(1);
  const auto repeat = Enter(1);

  alarms_.Advance(absl::Seconds(2));

  EXPECT_TRUE(repeat->error);
}

TEST_F(CallWindowTest, WaitEndsWhenTheCallerGivesUp) {
  const auto cancellation = std::make_shared<Cancellation>();
  const auto first = Enter(1);
  const auto repeat = Enter(1, "c", {.cancellation = cancellation});

  cancellation->Cancel();

  ASSERT_TRUE(repeat->error);
  EXPECT_THAT(*repeat->error, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(CallWindowTest, CallerWhoGivesUpLaterChangesNothing) {
  const auto cancellation = std::make_shared<Cancellation>();
  const auto first = Enter(1);
  const auto repeat = Enter(1, "c", {.cancellation = cancellation});
  first->attempt->End();

  cancellation->Cancel();

  EXPECT_TRUE(repeat->is_under_way());
  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(CallWindowTest, EndWaitsEndsThemAll) {
  const auto first = Enter(1);
  const auto repeat = Enter(1);

  window_->EndWaits(absl::UnavailableError("stop"));

  EXPECT_EQ(repeat->error, absl::UnavailableError("stop"));
  EXPECT_EQ(Enter(1)->error, absl::UnavailableError("stop"));
}

TEST_F(CallWindowTest, AttemptsThatWaitAreBounded) {
  std::vector<std::shared_ptr<Attempt>> attempts;
  while (attempts.empty() || !attempts.back()->error) {
    ASSERT_LT(attempts.size(), 100u);
    attempts.push_back(Enter(1));
  }

  EXPECT_THAT(*attempts.back()->error, StatusIs(StatusCode::kUnavailable));
}

TEST_F(CallWindowTest, AnotherRequestIsInvalidWhileTheFirstRuns) {
  const auto first = Enter(3);

  EXPECT_TRUE(Enter(3, "c", {}, /*fingerprint=*/8)->error);
}

TEST_F(CallWindowTest, MalformedIdsAreInvalid) {
  EXPECT_THAT(*Enter(0)->error, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(*Enter(1, "")->error, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(*Enter(1, std::string(65, 'x'))->error,
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_TRUE(Enter(1, std::string(64, 'x'))->is_under_way());
}

TEST_F(CallWindowTest, CallTellsAnAnsweredBelowOfUpToItsSequence) {
  for (const uint64_t told : {0, 8}) {
    answered_below_ = told;
    EXPECT_THAT(*Enter(7)->error,
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("expected an answered_below of 1 to 7")));
  }
  answered_below_ = 7;

  EXPECT_TRUE(Enter(7)->is_under_way());
}

TEST_F(CallWindowTest, CallFarAboveItsAnsweredBelowIsRefused) {
  answered_below_ = 10;
  const absl::Status refused = *Enter(10 + kMaxCallsUnderWay)->error;

  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted,
                                HasSubstr("at most 127 above")));
  EXPECT_EQ(ReasonOf(refused), Reason::kLimitReached);
  EXPECT_TRUE(Enter(9 + kMaxCallsUnderWay)->is_under_way());
}

TEST_F(CallWindowTest, EveryCallFromAnsweredBelowOnIsRemembered) {
  for (uint64_t i = 1; i <= kMaxCallsUnderWay; ++i) Make(i);

  for (uint64_t i = 1; i <= kMaxCallsUnderWay; ++i) {
    EXPECT_EQ(Enter(i)->found(), i);
  }
}

TEST_F(CallWindowTest, CallsBelowAnsweredBelowAreForgotten) {
  for (uint64_t sequence : {1, 2, 4}) Make(sequence);
  const uint64_t bytes = account_->used_bytes();
  answered_below_ = 4;
  Make(5);

  EXPECT_LT(account_->used_bytes(), bytes);
  answered_below_ = 1;
  EXPECT_EQ(Enter(4)->found(), 4u);
  // 3 never came.
  for (uint64_t sequence : {1, 2, 3}) {
    EXPECT_THAT(*Enter(sequence)->error, IsUnknown());
    EXPECT_EQ(ReasonOf(*Enter(sequence)->error), Reason::kOutcomeUnknown);
    EXPECT_THAT(window_->Knows({}, {"c", sequence}), IsUnknown());
  }
}

TEST_F(CallWindowTest, RepeatMayTellAHigherAnsweredBelow) {
  for (uint64_t sequence : {1, 2, 3}) Make(sequence);
  answered_below_ = 3;

  EXPECT_EQ(Enter(3)->found(), 3u);

  answered_below_ = 1;
  EXPECT_THAT(*Enter(2)->error, IsUnknown());
}

TEST_F(CallWindowTest, CallThatLeavesAGapDoesNotKeepItOpen) {
  Make(2);

  EXPECT_EQ(Enter(1)->attempt->answer(), nullptr);
}

TEST_F(CallWindowTest, CallThatItsClientHasGivenUpOnIsMadeAndForgotten) {
  const auto first = Enter(1);
  const auto repeat = Enter(1);
  answered_below_ = 2;
  Make(2);

  answered_below_ = 1;
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
  first->Keep(9);
  first->attempt->End();
  EXPECT_EQ(repeat->found(), 9u);
  repeat->attempt->End();
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
}

// A stray attempt may come after it.
TEST_F(CallWindowTest, AnsweredBelowOutlivesACallThatIsRefused) {
  Make(1);
  answered_below_ = 2;
  answer_bytes_ = kBudgetBytes;
  EXPECT_THAT(*Enter(2)->error, StatusIs(StatusCode::kResourceExhausted));

  answered_below_ = 1;
  answer_bytes_ = 0;
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
}

TEST_F(CallWindowTest, OldAnswersAreDropped) {
  Open({.max_age = absl::Minutes(1)});
  Make(1);
  alarms_.Advance(absl::Seconds(30));
  Make(2);
  alarms_.Advance(absl::Seconds(30));

  EXPECT_EQ(Enter(2)->found(), 2u);
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
  EXPECT_THAT(window_->Knows({}, {"c", 1}), IsUnknown());
}

TEST_F(CallWindowTest, MarkOfADroppedAnswerGoesWithAnsweredBelow) {
  Open({.max_bytes = 1});
  Make(1);
  Make(2);
  ASSERT_THAT(*Enter(1)->error, IsUnknown());
  answered_below_ = 3;

  // Has the place of 1 among the marks.
  EXPECT_THAT(window_->Knows({}, {"c", 1 + kMaxCallsUnderWay, 3}),
              IsOkAndHolds(false));
  Make(1 + kMaxCallsUnderWay);
}

TEST_F(CallWindowTest, SilentClientsAreForgotten) {
  Open({.max_age = absl::Minutes(1)});
  Make(1, "silent");
  const uint64_t bytes_of_one = account_->used_bytes();
  alarms_.Advance(absl::Minutes(1));

  Make(1, "others");

  EXPECT_EQ(account_->used_bytes(), bytes_of_one);
}

TEST_F(CallWindowTest, ClientsAreBounded) {
  Open({.max_clients = 1});
  Make(1, "one");

  EXPECT_THAT(*Enter(1, "two")->error,
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(Enter(1, "one")->found(), 1u);
}

TEST_F(CallWindowTest, BytesOfAnswersAreBounded) {
  Open({.max_bytes = 3000});
  for (uint64_t sequence = 1; sequence <= 100; ++sequence) Make(sequence);

  EXPECT_LT(account_->used_bytes(), 4000u);
  EXPECT_EQ(Enter(100)->found(), 100u);
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
}

TEST_F(CallWindowTest, OldestAnswersOfAllClientsAreDroppedFirst) {
  Open({.max_bytes = 3000});
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) Make(sequence);
  Make(1, "d");
  for (uint64_t sequence = 6; sequence <= 9; ++sequence) Make(sequence);

  EXPECT_EQ(Enter(1, "d")->found(), 1u);
  EXPECT_EQ(Enter(9)->found(), 9u);
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
}

// Else the newest would be the next to go.
TEST_F(CallWindowTest, LateRepeatOfAnOlderCallMakesItsAnswerNoYounger) {
  Open({.max_bytes = 1000});
  Make(1);
  alarms_.Advance(absl::Seconds(1));
  Make(2);
  alarms_.Advance(absl::Seconds(1));
  EXPECT_EQ(Enter(1)->found(), 1u);

  Make(3);

  EXPECT_EQ(Enter(2)->found(), 2u);
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
}

TEST_F(CallWindowTest, LateDuplicateOfAnAnsweredCallTakesNoAnswerAway) {
  Open({.max_bytes = 1});
  Make(5);
  answered_below_ = 6;
  Make(6);

  answered_below_ = 5;
  EXPECT_THAT(*Enter(5)->error, IsUnknown());

  answered_below_ = 6;
  EXPECT_EQ(Enter(6)->found(), 6u);
}

TEST_F(CallWindowTest, TheLastAnswerIsKeptWhateverItsSize) {
  Open({.max_bytes = 100});
  answer_bytes_ = 10'000;
  Enter(1)->attempt->Keep(
      CallReply(InitReply{.versions = std::vector<Version>(1000, 1)}));

  EXPECT_NE(Enter(1)->attempt->answer(), nullptr);
}

TEST_F(CallWindowTest, MemoryIsReservedBeforeTheAttempt) {
  answer_bytes_ = kBudgetBytes + 1;

  EXPECT_THAT(*Enter(1)->error, StatusIs(StatusCode::kResourceExhausted));
}

TEST_F(CallWindowTest, CallThatFindsNoMemoryDropsNothing) {
  Make(1);
  Make(1, "d");
  answer_bytes_ = kBudgetBytes;
  ASSERT_THAT(*Enter(2)->error, StatusIs(StatusCode::kResourceExhausted));

  answer_bytes_ = 0;
  EXPECT_EQ(Enter(1)->found(), 1u);
  EXPECT_EQ(Enter(1, "d")->found(), 1u);
}

TEST_F(CallWindowTest, AnswersThatTheCallerHasLeaveTheirMemoryToItsNextCall) {
  answer_bytes_ = kBudgetBytes / 3 * 2;
  const auto first = Enter(1);
  first->attempt->Keep(CallReply(InitReply{
      .versions = std::vector<Version>(answer_bytes_ / sizeof(Version), 1)}));
  first->attempt.reset();
  answered_below_ = 2;

  EXPECT_TRUE(Enter(2)->is_under_way());
}

TEST_F(CallWindowTest, EverythingIsGivenBackAtTheEnd) {
  Make(1);
  const auto waiting = Enter(2);
  EXPECT_GT(account_->used_bytes(), 0u);
  waiting->attempt.reset();

  window_.reset();

  EXPECT_EQ(account_->used_bytes(), 0u);
}

TEST_F(CallWindowTest, LongErrorsAreCutOff) {
  const auto first = Enter(1);
  // Leaves no room for more than was reserved at the start.
  const uint64_t rest = kBudgetBytes - budget_->used_bytes();
  ASSERT_OK(budget_->Reserve(rest));
  std::string message;
  while (message.size() < 10'000) message += "\U0001F600";
  first->attempt->Keep(WithReason(absl::AbortedError(message),
                                  Reason::kKeyReplaced, {{"key", "w"}}));
  first->attempt->End();
  budget_->Release(rest);

  const absl::Status kept = Enter(1)->attempt->answer()->status();

  EXPECT_THAT(kept, StatusIs(StatusCode::kAborted));
  EXPECT_LT(kept.message().size(), 1000u);
  EXPECT_EQ(kept.message().size() % 4, 0u) << "cut within a character";
  EXPECT_EQ(ReasonOf(kept), Reason::kKeyReplaced);
}

TEST_F(CallWindowTest, LaterAnswerReplacesTheFirst) {
  const auto first = Enter(1);
  first->Keep(1);
  first->attempt->Keep(absl::AbortedError("the round failed"));
  first->attempt->End();

  EXPECT_EQ(Enter(1)->attempt->answer()->status(),
            absl::AbortedError("the round failed"));
}

TEST_F(CallWindowTest, WhatIsRememberedIsRestored) {
  const auto under_way = Enter(3);
  for (uint64_t sequence : {1, 2, 5}) Make(sequence);
  answered_below_ = 2;
  Make(6);

  Reopen();

  EXPECT_EQ(Enter(2)->found(), 2u);
  EXPECT_EQ(Enter(6)->found(), 6u);
  EXPECT_EQ(Enter(4)->attempt->answer(), nullptr) << "it never came";
  EXPECT_THAT(*Enter(3)->error, IsUnknown());
  answered_below_ = 1;
  EXPECT_THAT(*Enter(1)->error, IsUnknown());
  EXPECT_TRUE(Enter(2, "c", {}, /*fingerprint=*/8)->error);
}

TEST_F(CallWindowTest, DroppedAnswersStaySoWhenTheyAreRestored) {
  Open({.max_bytes = 1});
  Make(5, "c");
  Make(1, "d");  // takes the place of it

  Reopen();

  EXPECT_THAT(*Enter(5, "c")->error, IsUnknown());
  EXPECT_TRUE(Enter(4, "c")->is_under_way());
  EXPECT_EQ(Enter(1, "d")->found(), 1u);
}

TEST_F(CallWindowTest, RestoredAnswersThatDoNotFitLeaveTheirMarks) {
  for (uint64_t sequence = 1; sequence <= 9; ++sequence) Make(sequence);

  Reopen({.max_bytes = 3000});

  EXPECT_THAT(*Enter(1)->error, IsUnknown());
  EXPECT_EQ(Enter(9)->found(), 9u);
}

TEST_F(CallWindowTest, ClientsThatDoNotFitAreNotRestored) {
  Make(1, "c");
  Make(1, "d");
  const std::vector<ClientSnapshot> saved =
      window_->Save([](absl::Duration) {});

  Open({.max_clients = 1});

  EXPECT_THAT(window_->Restore(saved),
              StatusIs(StatusCode::kResourceExhausted));
}

TEST_F(CallWindowTest, SavedCallsMayBeAnything) {
  ClientSnapshot client = {
      .caller = Caller().name, .client_id = "c", .answered_below = 10};
  for (const uint64_t sequence : {0, 9, 10, 10, 500}) {
    client.calls.push_back(
        {.sequence = sequence,
         .fingerprint = 7,
         .answer = std::make_shared<const CallAnswer>(ReplyOf(sequence))});
  }

  ASSERT_OK(window_->Restore({client, client}));

  answered_below_ = 10;
  EXPECT_EQ(Enter(10)->found(), 10u);
  answered_below_ = 500;
  EXPECT_EQ(Enter(500)->attempt->answer(), nullptr);
}

TEST_F(CallWindowTest, SaveLetsCallsInAfterSomeClients) {
  constexpr int kClients = 2000;
  budget_ = MakeRefCounted<ByteBudget>("test", 100 * kBudgetBytes);
  account_ = MakeRefCounted<BudgetAccount>(budget_);
  Open({});
  for (int i = 0; i < kClients; ++i) Make(1, absl::StrCat("c", i));
  int num_turns = 0;

  const std::vector<ClientSnapshot> saved = window_->Save([&](absl::Duration) {
    ++num_turns;
    // It is not held.
    Make(1, absl::StrCat("late", num_turns));
  });

  EXPECT_GE(num_turns, 4);
  std::set<std::string> clients;
  for (const ClientSnapshot& client : saved) clients.insert(client.client_id);
  for (int i = 0; i < kClients; ++i) {
    EXPECT_TRUE(clients.contains(absl::StrCat("c", i))) << i;
  }
  EXPECT_EQ(clients.size(), saved.size());
}

}  // namespace
}  // namespace tensorkv
