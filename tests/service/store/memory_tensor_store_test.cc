#include "service/store/memory_tensor_store.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::First;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::Inbox;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using MemoryTensorStoreTest = testing::ScriptedStoreTest;

TEST_F(MemoryTensorStoreTest, UpdatesInPlaceWhenNobodyReads) {
  ASSERT_OK(Init("w", 1));
  const char* before = Pull(PullOf("w"))->tensor.data();

  ASSERT_OK(Push(PushOf("w", 2)));

  ASSERT_OK_AND_ASSIGN(const Value value, Pull(PullOf("w")));
  EXPECT_EQ(value.tensor.data(), before);
  EXPECT_EQ(First(value), 2);
}

TEST_F(MemoryTensorStoreTest, DefaultGetsTheUidOfItsClusterOnce) {
  store_.NameDefault(7);
  EXPECT_EQ(testing::Described(store_).uid(), 7u);

  store_.NameDefault(8);
  EXPECT_EQ(testing::Described(store_).uid(), 7u);
}

TEST(NamedStoreTest, DefaultStaysWhereItHasTheUidOfItsClusterFromTheStart) {
  ScriptedBackend backend;
  FakeAlarms alarms;
  MemoryTensorStore store({.default_uid = 7}, &backend, &alarms);
  ASSERT_OK(testing::MakeNow(
      store, testing::JoinOf("default", "a", absl::Minutes(1))));

  store.NameDefault(7);

  EXPECT_EQ(testing::Described(store).uid(), 7u);
  EXPECT_EQ(testing::Described(store).workers_size(), 1);
}

TEST_F(MemoryTensorStoreTest, DefaultThatHasKeysStaysTheOneThatItIs) {
  const uint64_t uid = testing::Described(store_).uid();
  ASSERT_OK(Init("w", 1));

  store_.NameDefault(7);

  EXPECT_EQ(testing::Described(store_).uid(), uid);
}

TEST_F(MemoryTensorStoreTest, PullDuringAnInPlaceUpdateGetsTheNewValue) {
  ASSERT_OK(Init("w", 1));
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();
  Inbox<PullReply> inbox;

  store_.Pull(PullOf("w"), {}, inbox.Callback());
  EXPECT_TRUE(inbox.is_empty());
  backend_.Release();
  pusher.join();

  ASSERT_FALSE(inbox.is_empty());
  EXPECT_EQ(First((*inbox.answer)->values[0]), 2);
  EXPECT_EQ((*inbox.answer)->values[0].version, 2u);
}

TEST_F(MemoryTensorStoreTest, PullDuringACopyingUpdateGetsTheOldValue) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK_AND_ASSIGN(const Value reader, Pull(PullOf("w")));
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();

  EXPECT_EQ(First(*Pull(PullOf("w"))), 1);

  backend_.Release();
  pusher.join();
  EXPECT_EQ(First(*Pull(PullOf("w"))), 2);
}

TEST_F(MemoryTensorStoreTest, PushesDuringAnUpdateRunInTheirOrder) {
  ASSERT_OK(Init("w", 1));
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();
  Inbox<PushReply> second;
  Inbox<PushReply> third;

  store_.Push(PushOf("w", 3), {}, second.Callback());
  store_.Push(PushOf("w", 4), {}, third.Callback());
  EXPECT_TRUE(second.is_empty());
  backend_.Release();
  pusher.join();
  third.Wait();

  EXPECT_EQ((*second.answer)->results[0].version, 3u);
  EXPECT_EQ((*third.answer)->results[0].version, 4u);
  EXPECT_EQ(First(*Pull(PullOf("w"))), 4);
}

TEST_F(MemoryTensorStoreTest, OtherKeysDoNotWaitForAnUpdate) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK(Init("other", 5));
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();

  EXPECT_EQ(First(*Pull(PullOf("other"))), 5);

  backend_.Release();
  pusher.join();
}

TEST_F(MemoryTensorStoreTest, LargeWorkLeavesTheCallersThreadAlone) {
  MemoryTensorStore store({.budget_bytes = 1 << 28}, &backend_, &alarms_);
  InitRequest init;
  init.entries.push_back({"large", Filled(1, {1 << 20})});
  init.entries.push_back({"small", Filled(1)});
  Inbox<InitReply> made;
  store.Init(std::move(init), {}, made.Callback());
  made.Wait();
  PushRequest push;
  push.entries.push_back({"large", false, Filled(2, {1 << 20})});
  backend_.Hold();
  Inbox<PushReply> inbox;

  store.Push(std::move(push), {}, inbox.Callback());

  backend_.WaitUntilHeld();
  EXPECT_TRUE(inbox.is_empty());
  Inbox<PullReply> small;
  store.Pull(PullOf("small"), {}, small.Callback());
  EXPECT_FALSE(small.is_empty());
  backend_.Release();
  inbox.Wait();
  EXPECT_OK(*inbox.answer);
}

// Whoever asks for less then must not be refused for what this call had.
TEST_F(MemoryTensorStoreTest, RowsWithoutRoomAreFreeBeforeTheAnswer) {
  constexpr int64_t kNumRows = 150;
  InitRequest init;
  init.entries.push_back({"w", Filled(1, *Shape::Create({kNumRows, 1000}))});
  ASSERT_OK(InitNow(store_, std::move(init)));
  Tensor ids = *Tensor::Allocate(DType::kI64, {kNumRows});
  for (int64_t i = 0; i < kNumRows; ++i) ids.mutable_elements<int64_t>()[i] = i;
  PullRequest request = PullOf("w");
  request.entries[0].rows = *RowIds::Create(std::move(ids));
  const uint64_t before = store_.used_bytes();
  uint64_t at_answer = 0;

  store_.Pull(std::move(request), {}, [&](absl::StatusOr<PullReply> reply) {
    EXPECT_THAT(reply, StatusIs(absl::StatusCode::kResourceExhausted));
    at_answer = store_.used_bytes();
  });

  EXPECT_EQ(at_answer, before);
}

TEST_F(MemoryTensorStoreTest, InitThatNobodyWantsAnyMoreEnds) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_OK(testing::MakeNow(
        store_, testing::SetRuleOf("sgd", absl::StrCat("*x", i))));
  }
  InitRequest init;
  for (int i = 0; i < 100; ++i) {
    init.entries.push_back({absl::StrCat("key", i), Filled(1, {0})});
  }
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  Inbox<InitReply> inbox;

  store_.Init(std::move(init), {.cancellation = cancellation},
              inbox.Callback());
  inbox.Wait();

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(testing::Described(store_).num_keys(), 0u);
}

// Who has the answer may go before the task that gave it has ended.
TEST_F(MemoryTensorStoreTest, NothingOfACallIsLeftAfterStop) {
  MemoryTensorStore store({.budget_bytes = 1 << 28}, &backend_, &alarms_);
  InitRequest init;
  init.entries.push_back({"w", Filled(1, {1 << 20})});
  ASSERT_OK(InitNow(store, std::move(init)));
  PullRequest request = PullOf("w");
  request.dtype = DType::kF16;
  Notification answered;
  Notification may_go;
  bool is_gone = false;
  absl::Cleanup gone = [&] {
    may_go.WaitForNotification();
    is_gone = true;
  };
  store.Pull(std::move(request), {},
             [&answered, gone = std::move(gone)](
                 const absl::StatusOr<PullReply>&) { answered.Notify(); });
  answered.WaitForNotification();

  may_go.Notify();
  store.Stop();

  EXPECT_TRUE(is_gone);
}

TEST_F(MemoryTensorStoreTest, UpdateIsCountedWithItsVersion) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK_AND_ASSIGN(const Value read, Pull(PullOf("w")));
  backend_.Hold();
  Background push([&] { return Push(PushOf("w", 2)).status(); });
  backend_.WaitUntilHeld();

  ASSERT_OK_AND_ASSIGN(const StatReply during,
                       testing::MakeNow(store_, testing::StatOf({"w"}), {}));
  backend_.Release();
  ASSERT_OK(push.Result());
  ASSERT_OK_AND_ASSIGN(const StatReply after,
                       testing::MakeNow(store_, testing::StatOf({"w"}), {}));

  EXPECT_EQ(during.keys(0).version(), 1u);
  EXPECT_EQ(during.keys(0).update_count(), 0u);
  EXPECT_EQ(after.keys(0).version(), 2u);
  EXPECT_EQ(after.keys(0).update_count(), 1u);
}

// The states of the second rule are new, and stay so.
TEST_F(MemoryTensorStoreTest, FailedUpdateLeavesAllAsItWas) {
  for (const auto& [rule, expected] :
       {std::pair("accumulate", 3),
        {"sgd(learning_rate=1, momentum=0.5)", -1}}) {
    ASSERT_OK(testing::MakeNow(store_, testing::SetRuleOf(rule, "*")));
    ASSERT_OK(Init(rule, 1));
    backend_.FailApply(absl::InternalError("broken"));
    EXPECT_THAT(Push(PushOf(rule, 2)), StatusIs(absl::StatusCode::kInternal));
    backend_.FailApply(absl::OkStatus());

    ASSERT_OK_AND_ASSIGN(const StatReply stat,
                         testing::MakeNow(store_, testing::StatOf({rule}), {}));
    EXPECT_EQ(stat.keys(0).version(), 1u);
    EXPECT_EQ(stat.keys(0).update_count(), 0u);
    EXPECT_EQ(First(*Pull(PullOf(rule))), 1);
    ASSERT_OK(Push(PushOf(rule, 2)));
    EXPECT_EQ(First(*Pull(PullOf(rule))), expected);
  }
}

TEST_F(MemoryTensorStoreTest, FailedUpdateIsNotCountedUnderANewRate) {
  ASSERT_OK(testing::MakeNow(store_, testing::SetRuleOf("sgd", "*")));
  ASSERT_OK(Init("w", 1));
  ASSERT_OK_AND_ASSIGN(const Value read, Pull(PullOf("w")));
  backend_.Hold();
  Background push([&] { return Push(PushOf("w", 2)).status(); });
  backend_.WaitUntilHeld();
  backend_.FailApply(absl::InternalError("broken"));
  ASSERT_OK(testing::MakeNow(
      store_, testing::SetHyperparametersOf({{"learning_rate", 2}}, "*")));
  backend_.Release();

  EXPECT_THAT(push.Result(), StatusIs(absl::StatusCode::kInternal));
  ASSERT_OK_AND_ASSIGN(const StatReply stat,
                       testing::MakeNow(store_, testing::StatOf({"w"}), {}));
  EXPECT_EQ(stat.keys(0).update_count(), 0u);
}

// They are more than one batch, of which the first has states.
TEST_F(MemoryTensorStoreTest, ManyKeysAreUpdatedEachByItsRule) {
  constexpr int kNumKeys = 3000;
  const auto rule_of = [](int i) { return i < 1100 ? "c" : i % 2 ? "b" : "a"; };
  MemoryTensorStore store({.budget_bytes = 1 << 28}, &backend_, &alarms_);
  ASSERT_OK(testing::MakeNow(store, testing::SetRuleOf("accumulate", "a*")));
  ASSERT_OK(testing::MakeNow(
      store, testing::SetRuleOf("nag(learning_rate=1, momentum=0)", "c*")));
  InitRequest init;
  PushRequest push;
  PullRequest pull;
  for (int i = 0; i < kNumKeys; ++i) {
    const std::string key = absl::StrCat(rule_of(i), i);
    init.entries.push_back({key, Filled(1, {2})});
    push.entries.push_back({key, false, Filled(i, {2})});
    pull.entries.push_back({key, 0});
  }
  ASSERT_OK(InitNow(store, std::move(init)));
  Inbox<PushReply> pushed;
  Inbox<PullReply> pulled;

  store.Push(std::move(push), {}, pushed.Callback());
  pushed.Wait();
  store.Pull(std::move(pull), {}, pulled.Callback());
  pulled.Wait();

  ASSERT_OK(*pulled.answer);
  for (int i = 0; i < kNumKeys; ++i) {
    const Value& value = (*pulled.answer)->values[i];
    ASSERT_EQ(First(value), i < 1100 ? 1 - i : i % 2 == 0 ? i + 1 : i);
    ASSERT_EQ(value.version, 2u);
  }
}

TEST_F(MemoryTensorStoreTest, FailedRoundIsPushedAgainByEveryWorker) {
  CreateSyncNamespace(2);
  backend_.FailApply(absl::InternalError("broken"));
  ASSERT_OK(Push(SyncPush(0, 1, 1)));
  ASSERT_OK(Push(SyncPush(1, 1, 1)));
  backend_.FailApply(absl::OkStatus());
  const auto failed = AllOf(
      StatusIs(absl::StatusCode::kAborted, "round 1 of \"w\" failed: broken"),
      HasReason(Reason::kRoundFailed,
                {{"key", "w"}, {"step", "1"}, {"ranks", ""}}));

  EXPECT_THAT(Pull(SyncPull(0)), failed);
  EXPECT_THAT(Pull(SyncPull(0)), failed);
  EXPECT_THAT(Push(SyncPush(1, 2, 1)), failed);
  EXPECT_EQ(testing::Described(store_, "sync").rounds_failed(), 1u);

  ASSERT_OK(Push(SyncPush(0, 1, 5)));
  ASSERT_OK(Push(SyncPush(1, 1, 2)));
  EXPECT_EQ(First(*Pull(SyncPull(0))), 7);
}

// A round that closes while an earlier one is applied is lost with it.
TEST_F(MemoryTensorStoreTest, QueuedRoundsFailWithTheOneBefore) {
  CreateSyncNamespace(1);
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(SyncPush(0, 1, 1))); });
  backend_.WaitUntilHeld();
  ASSERT_OK(Push(SyncPush(0, 2, 10)));
  EXPECT_EQ(Push(SyncPush(0, 2, 10)).status().code(),
            absl::StatusCode::kAlreadyExists);
  backend_.FailApply(absl::InternalError("broken"));
  backend_.Release();
  pusher.join();
  backend_.FailApply(absl::OkStatus());

  EXPECT_EQ(testing::Described(store_, "sync").rounds_failed(), 2u);
  EXPECT_THAT(Push(SyncPush(0, 2, 10)), StatusIs(absl::StatusCode::kAborted));
  ASSERT_OK(Push(SyncPush(0, 1, 1)));
  ASSERT_OK(Push(SyncPush(0, 2, 10)));
  EXPECT_EQ(First(*Pull(SyncPull(0))), 10);
  EXPECT_EQ(Pull(SyncPull(0))->version, 3u);
}

TEST_F(MemoryTensorStoreTest, PartialSumThatFailsLosesNothing) {
  CreateSyncNamespace(10);
  for (uint32_t rank = 0; rank < 7; ++rank) {
    ASSERT_OK(Push(SyncPush(rank, 1, 1)));
  }
  backend_.FailAllocate(absl::ResourceExhaustedError("no memory"));
  ASSERT_OK(Push(SyncPush(7, 1, 1)));
  backend_.FailAllocate(absl::OkStatus());

  ASSERT_OK(Push(SyncPush(8, 1, 1)));
  ASSERT_OK(Push(SyncPush(9, 1, 1)));

  EXPECT_EQ(First(*Pull(SyncPull(0))), 10);
}

TEST_F(MemoryTensorStoreTest, ReplyComesAfterTheOwnUpdateNotAfterOthers) {
  ASSERT_OK(Init("w", 1));
  backend_.Hold();
  Inbox<PushReply> first;
  std::thread pusher(
      [&] { store_.Push(PushOf("w", 2), {}, first.Callback()); });
  backend_.WaitUntilHeld();
  Inbox<PushReply> next;
  // Pushes once more whenever it is answered: the key is never idle.
  std::atomic<bool> stop{false};
  std::function<void(absl::StatusOr<PushReply>)> again =
      [&](absl::StatusOr<PushReply>) {
        if (stop) return next.arrived.Notify();
        store_.Push(PushOf("w", 3), {}, again);
      };
  store_.Push(PushOf("w", 3), {}, again);

  backend_.Release();
  pusher.join();  // the thread that pushed first is not kept for the others

  EXPECT_FALSE(first.is_empty());
  stop = true;
  next.Wait();
}

TEST_F(MemoryTensorStoreTest, NumberOfNamespacesIsBounded) {
  MemoryTensorStore store({.max_namespaces = 2}, &backend_, &alarms_);
  ASSERT_OK(testing::MakeNow(store, testing::CreateOf("a")));

  EXPECT_THAT(testing::MakeNow(store, testing::CreateOf("b")),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(MemoryTensorStoreTest, NamespacesThatAreShownAreListedAmongMany) {
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK(testing::MakeNow(store_,
                               testing::CreateOf(absl::StrFormat("%03d", i))));
  }
  const auto names = [&](absl::string_view after, size_t max_namespaces) {
    std::vector<std::string> names;
    const auto listed =
        store_.ListNamespaces(after, max_namespaces, [](absl::string_view n) {
          return n == "010" || n == "199" || n == "299";
        });
    for (const NamespaceStatus& each : *listed) {
      names.push_back(each.name());
    }
    return names;
  };

  EXPECT_THAT(names("", 9), ElementsAre("010", "199", "299"));
  EXPECT_THAT(names("010", 1), ElementsAre("199"));
  EXPECT_THAT(names("299", 9), ElementsAre());
}

// --- What the observer hears -------------------------------------------------

class RecordingObserver final : public StoreObserver {
 public:
  void Report(StoreEvent event, absl::string_view name_space,
              absl::string_view detail) override {
    events.push_back(event);
    texts.push_back(absl::StrCat(name_space, ": ", detail));
  }

  std::vector<StoreEvent> events;
  std::vector<std::string> texts;
};

TEST(StoreObserverTest, HearsWhatHappens) {
  ScriptedBackend backend;
  FakeAlarms alarms;
  RecordingObserver observer;
  MemoryTensorStore store({.observer = &observer}, &backend, &alarms);
  ASSERT_OK(testing::MakeNow(
      store, testing::CreateOf("n", {.mode = Mode::kSync, .num_workers = 2})));
  InitRequest init{.name_space = "n"};
  init.entries.push_back({"w", Filled(1)});
  ASSERT_OK(InitNow(store, std::move(init)).status());
  ASSERT_OK(testing::MakeNow(store, testing::SetRuleOf("sgd", "w*", "n")));
  const Worker stays = WorkerOf(
      testing::MakeNow(store, testing::JoinOf("n", "a", absl::Hours(1)))
          ->worker());
  ASSERT_OK(
      testing::MakeNow(store, testing::JoinOf("n", "b", absl::Seconds(1))));
  PushRequest push{.name_space = "n", .worker = stays, .step = 1};
  push.entries.push_back({"w", false, Filled(1)});
  Inbox<PushReply> pushed;
  store.Push(std::move(push), {}, pushed.Callback());

  alarms.Advance(absl::Seconds(2));
  ASSERT_OK(testing::MakeNow(
      store, testing::RequestOfMember<LeaveRequest>("n", stays)));
  ASSERT_OK(testing::MakeNow(store, testing::RemoveOf("n")));

  EXPECT_THAT(
      observer.events,
      ElementsAre(StoreEvent::kNamespaceCreated, StoreEvent::kRuleChanged,
                  StoreEvent::kWorkerJoined, StoreEvent::kWorkerJoined,
                  StoreEvent::kWorkerLost, StoreEvent::kRoundFailed,
                  StoreEvent::kWorkerLeft, StoreEvent::kNamespaceDeleted));
  EXPECT_EQ(observer.texts[1], "n: rule sgd for \"w*\"");
  EXPECT_EQ(observer.texts[2], "n: rank 0 (\"a\")");
  EXPECT_THAT(observer.texts[4], HasSubstr("rank 1 "));
  EXPECT_THAT(observer.texts[5], HasSubstr("n: round 1 of \"w\": "));
}

TEST_F(MemoryTensorStoreTest, NamespaceWithAGuardGetsNoSlices) {
  const auto init = [this] {
    InitRequest request;
    request.entries.push_back(
        {SliceNameOf("w", 0, /*count=*/2, {8}), Filled(1)});
    return InitNow(store_, std::move(request)).status();
  };
  ASSERT_OK(testing::MakeNow(
      store_, testing::UpdateOf("", {.gradient_guard = {.max_norm = 1}},
                                {"gradient_guard"})));

  EXPECT_THAT(init(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("key \"w\": expected a whole key")));

  ASSERT_OK(
      testing::MakeNow(store_, testing::UpdateOf("", {}, {"gradient_guard"})));
  EXPECT_OK(init());
}

TEST(StoreObserverTest, HearsWhatAnUpdateHasChanged) {
  RecordingObserver observer;
  FakeAlarms alarms;
  ScriptedBackend backend;
  MemoryTensorStore store({.observer = &observer}, &backend, &alarms);
  const UpdateNamespaceRequest request = testing::UpdateOf(
      "", {.budget_bytes = 1 << 20, .gradient_guard = {.max_norm = 1.5}},
      {"gradient_guard", "budget_bytes"});

  ASSERT_OK(testing::MakeNow(store, request));
  ASSERT_OK(testing::MakeNow(store, request));

  EXPECT_THAT(observer.events, ElementsAre(StoreEvent::kNamespaceUpdated));
  EXPECT_EQ(observer.texts[0],
            "default: budget_bytes=1048576 gradient_guard.max_norm=1.5");
}

TEST(StoreObserverTest, HearsOfARepeatedChangeOnce) {
  RecordingObserver observer;
  FakeAlarms alarms;
  ScriptedBackend backend;
  MemoryTensorStore store({.observer = &observer}, &backend, &alarms);
  SetRuleRequest request = testing::SetRuleOf("sgd", "w*");
  SetCallId({"client", 1}, request);

  ASSERT_OK(testing::MakeNow(store, request));
  ASSERT_OK(testing::MakeNow(store, request));

  EXPECT_THAT(observer.events, ElementsAre(StoreEvent::kRuleChanged));
}

}  // namespace
}  // namespace tensorkv
