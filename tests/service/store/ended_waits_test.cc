// Calls that wait, and what ends them.

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/thread_cpu_time.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Filled;
using ::tensorkv::testing::First;
using ::tensorkv::testing::Inbox;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::ThreadCpuTime;
using ::testing::AllOf;
using ::testing::HasSubstr;

using EndedWaitsTest = testing::ScriptedStoreTest;

// What a call waits for is looked for without holding others up.
TEST_F(EndedWaitsTest, DeadlineOfAPullOfVeryManyKeysNamesTheFirst) {
  constexpr int kNumKeys = 3000;
  PullRequest request;
  request.wait_for_keys = true;
  for (int i = 0; i < kNumKeys; ++i) {
    request.entries.push_back({absl::StrCat("k", i), 0});
  }
  Inbox<PullReply> pull;
  store_.Pull(request, {.timeout = absl::Seconds(1)}, pull.Callback());

  alarms_.Advance(absl::Seconds(1));
  pull.Wait();

  EXPECT_THAT(
      pull.answer->status(),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("waited 1s: key \"k0\" does not exist yet"),
                     HasSubstr("; and 1016 more; the last 1976 keys were not "
                               "looked at"))));
}

TEST_F(EndedWaitsTest, ServerBoundsWaitsWithoutADeadline) {
  Inbox<PullReply> inbox;
  PullRequest request = PullOf("later");
  request.wait_for_keys = true;
  store_.Pull(request, {}, inbox.Callback());

  alarms_.Advance(absl::Minutes(5));

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      HasSubstr("does not exist yet")));
}

TEST_F(EndedWaitsTest, AnsweredWaitLeavesNoAlarm) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;
  store_.Pull(PullOf("w", 2), {}, inbox.Callback());
  EXPECT_EQ(alarms_.num_pending(), 1u);

  ASSERT_OK(Push(PushOf("w", 2)));

  EXPECT_FALSE(inbox.is_empty());
  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(EndedWaitsTest, InterruptWaitsEndsWaitsAndLetsLaterOnesWait) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> first, later;
  store_.Pull(PullOf("w", 2), {}, first.Callback());

  store_.InterruptWaits(absl::UnavailableError("gone"));
  store_.Pull(PullOf("w", 2), {}, later.Callback());

  EXPECT_THAT(*first.answer, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(later.is_empty());
  store_.CancelWaits();
}

TEST_F(EndedWaitsTest, ValuesThatNobodyWantsAreNotConverted) {
  ASSERT_OK(Init("w", 1));
  backend_.FailAllocate(absl::InternalError("the device was asked"));
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  PullRequest request = PullOf("w");
  request.dtype = DType::kF16;
  Inbox<PullReply> inbox;

  store_.Pull(std::move(request), {.cancellation = cancellation},
              inbox.Callback());
  inbox.Wait();

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(EndedWaitsTest, CallCancelledBeforeItWaitsEndsToo) {
  ASSERT_OK(Init("w", 1));
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  Inbox<PullReply> inbox;

  store_.Pull(PullOf("w", 2), {.cancellation = cancellation}, inbox.Callback());

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kCancelled));
}

// Such a pull watches its keys in several lockings of the namespace's mutex.
TEST_F(EndedWaitsTest, LargePullEndsOnceWhileOneOfItsKeysGoes) {
  constexpr int kNumPulls = 200;
  PullRequest request;
  for (int i = 0; i < 1100; ++i) {
    request.entries.push_back({absl::StrCat(i), i == 1099 ? 1000u : 0u});
    ASSERT_OK(Init(request.entries.back().key, 1));
  }
  std::array<std::atomic<int>, kNumPulls> num_answers = {};
  std::thread deleter([&] {
    for (int i = 0; i < kNumPulls; ++i) {
      EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf({"7"})));
      EXPECT_OK(Init("7", 1));
    }
  });

  for (std::atomic<int>& num : num_answers) {
    store_.Pull(request, {},
                [&num](const absl::StatusOr<PullReply>&) { ++num; });
  }

  deleter.join();
  store_.CancelWaits();
  for (const std::atomic<int>& num : num_answers) EXPECT_EQ(num.load(), 1);
}

TEST_F(EndedWaitsTest, DeleteEndsPullsThatWaitForAnotherKey) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK(Init("b", 1));
  PullRequest request;
  request.entries = {{"w", 10}, {"b", 0}};
  Inbox<PullReply> inbox;
  store_.Pull(request, {}, inbox.Callback());
  request.wait_for_keys = true;
  Inbox<PullReply> patient;
  store_.Pull(request, {}, patient.Callback());
  ASSERT_OK(Init("b", 2, OnExisting::kReplace));
  ASSERT_TRUE(inbox.is_empty());

  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"b"})));

  ASSERT_FALSE(inbox.is_empty());
  EXPECT_THAT(*inbox.answer,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"b\"")));
  EXPECT_EQ(ReasonOf(inbox.answer->status()), Reason::kKeyNotFound);
  EXPECT_TRUE(patient.is_empty());
  store_.CancelWaits();
}

TEST_F(EndedWaitsTest, PullThatWaitsForAVersionPinsNoOtherKey) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK(Init("b", 1));
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();
  PullRequest request;
  request.entries = {{"w", 0}, {"b", 10}};
  Inbox<PullReply> inbox;
  store_.Pull(request, {}, inbox.Callback());
  backend_.Release();
  pusher.join();
  const char* before = Pull(PullOf("w"))->tensor.data();

  ASSERT_OK(Push(PushOf("w", 3)));

  EXPECT_EQ(Pull(PullOf("w"))->tensor.data(), before);
  EXPECT_TRUE(inbox.is_empty());
  store_.CancelWaits();
}

TEST_F(EndedWaitsTest, WakesDoNotTakeLongerForPullsOfManyKeys) {
  MemoryTensorStore store({.budget_bytes = 1 << 28}, &backend_, &alarms_);
  InitRequest init;
  PullRequest pull;
  pull.entries.push_back({"w", 1'000'000});
  init.entries.push_back({"w", Filled(1)});
  for (int i = 0; i < 20'000; ++i) {
    init.entries.push_back({absl::StrCat("key", i), Filled(1, {0})});
    pull.entries.push_back({absl::StrCat("key", i), 0});
  }
  ASSERT_OK(InitNow(store, std::move(init)));
  const auto push_many = [&] {
    const absl::Duration start = ThreadCpuTime();
    for (int i = 0; i < 100; ++i) {
      store.Push(PushOf("w", 1), {}, [](auto reply) { ASSERT_OK(reply); });
    }
    return ThreadCpuTime() - start;
  };
  const absl::Duration alone = push_many();
  for (int i = 0; i < 10; ++i) store.Pull(pull, {}, [](auto) {});

  // Looking at all entries would make it some 1000 times as long.
  EXPECT_LT(push_many(), 100 * alone);
}

TEST_F(EndedWaitsTest, DeleteDuringAnUpdateLetsThePushSucceed) {
  ASSERT_OK(Init("w", 1));
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();

  EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf({"w"})));
  backend_.Release();
  pusher.join();

  EXPECT_THAT(Pull(PullOf("w")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(store_.used_bytes(), 0u);
}

TEST_F(EndedWaitsTest, ReplaceDuringAnUpdateTakesALaterVersion) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK_AND_ASSIGN(const Value reader, Pull(PullOf("w")));
  backend_.Hold();
  absl::StatusOr<PushReply> pushed;
  std::thread pusher([&] { pushed = Push(PushOf("w", 2)); });
  backend_.WaitUntilHeld();
  std::thread replacer(
      [this] { EXPECT_OK(Init("w", 9, OnExisting::kReplace)); });

  backend_.Release();
  pusher.join();
  replacer.join();

  ASSERT_OK_AND_ASSIGN(const Value value, Pull(PullOf("w")));
  EXPECT_EQ(First(value), 9);
  EXPECT_GT(value.version, pushed->results[0].version);
}

TEST_F(EndedWaitsTest, CancelWaitsEndsWaitsAndRefusesNewOnes) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;
  store_.Pull(PullOf("w", 2), {}, inbox.Callback());

  store_.CancelWaits();

  for (const absl::Status& status :
       {inbox.answer->status(), Pull(PullOf("w", 2)).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_THAT(status, testing::HasReason(Reason::kServerStopping));
  }
  EXPECT_OK(Pull(PullOf("w")));
}

TEST_F(EndedWaitsTest, PullOfManyBusyKeysEnds) {
  ASSERT_OK(Init("a", 1));
  ASSERT_OK(Init("b", 1));
  std::atomic<bool> stop{false};
  std::vector<std::thread> pushers;
  for (const char* key : {"a", "a", "b", "b"}) {
    pushers.emplace_back([&, key] {
      while (!stop) {
        Inbox<PushReply> inbox;
        store_.Push(PushOf(key, 2), {}, inbox.Callback());
        inbox.Wait();
      }
    });
  }

  for (int i = 0; i < 100; ++i) {
    PullRequest request;
    request.entries = {{"a", 0}, {"b", 0}};
    Inbox<PullReply> inbox;
    store_.Pull(request, {}, inbox.Callback());
    inbox.Wait();
    EXPECT_OK(*inbox.answer);
  }

  stop = true;
  for (std::thread& pusher : pushers) pusher.join();
}

TEST_F(EndedWaitsTest, MissingKeyEndsAPullThatWouldWaitForAnother) {
  ASSERT_OK(Init("w", 1));
  PullRequest request;
  request.entries = {{"w", 9}, {"absent", 0}};

  EXPECT_THAT(Pull(request),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

// The caller's cancellation refers to the call, and the call's answer to what
// it needs: neither may keep the other alive.
TEST_F(EndedWaitsTest, PushPullThatHasWaitedIsGoneWithItsCancellation) {
  CreateSyncNamespace(2);
  auto cancellation = std::make_shared<Cancellation>();
  const std::weak_ptr<Cancellation> watch = cancellation;
  Inbox<PullReply> inbox;

  store_.PushPull({SyncPush(0, 1, 5)}, {.cancellation = cancellation},
                  inbox.Callback());
  EXPECT_TRUE(inbox.is_empty());
  EXPECT_OK(Push(SyncPush(1, 1, 5)));
  inbox.Wait();
  cancellation.reset();

  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace tensorkv
