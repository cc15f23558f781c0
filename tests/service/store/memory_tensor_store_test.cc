#include "service/store/memory_tensor_store.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/contribution.h"
#include "service/store/keyspace/rounds.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Where an answer arrives. Outlives the call.
template <typename Reply>
struct Inbox {
  std::optional<absl::StatusOr<Reply>> answer;
  Notification arrived;

  ReplyCallback<Reply> Callback() {
    return [this](absl::StatusOr<Reply> reply) {
      answer = std::move(reply);
      arrived.Notify();
    };
  }
  bool is_empty() { return !arrived.HasBeenNotified(); }
  void Wait() { arrived.WaitForNotification(); }
};

Tensor Filled(double value, Shape shape = {4}) {
  return *Tensor::Filled(DType::kF32, std::move(shape), value);
}

float First(const Value& value) { return value.tensor.elements<float>()[0]; }

class MemoryTensorStoreTest : public ::testing::Test {
 protected:
  ~MemoryTensorStoreTest() override { backend_.Release(); }

  absl::Status Init(const std::string& key, double value,
                    OnExisting on_existing = OnExisting::kFail) {
    InitRequest request;
    request.on_existing = on_existing;
    request.entries.push_back({key, Filled(value)});
    return InitNow(store_, std::move(request)).status();
  }

  static PushRequest PushOf(const std::string& key, double value) {
    PushRequest request;
    request.entries.push_back({key, false, Filled(value)});
    return request;
  }
  PushRequest SyncPush(uint32_t rank, Step step, double value) {
    PushRequest request = PushOf("w", value);
    request.name_space = "sync";
    request.worker = Worker{rank, 0};
    request.step = step;
    return request;
  }
  static PullRequest PullOf(const std::string& key, Version min_version = 0) {
    PullRequest request;
    request.entries.push_back({key, min_version});
    return request;
  }
  PullRequest SyncPull(uint32_t rank) {
    PullRequest request = PullOf("w");
    request.name_space = "sync";
    request.worker = Worker{rank, 0};
    return request;
  }

  absl::StatusOr<PushReply> Push(PushRequest request) {
    Inbox<PushReply> inbox;
    store_.Push(std::move(request), {}, inbox.Callback());
    return inbox.is_empty() ? absl::InternalError("no answer yet")
                            : *std::move(inbox.answer);
  }
  absl::StatusOr<Value> Pull(PullRequest request) {
    Inbox<PullReply> inbox;
    store_.Pull(std::move(request), {}, inbox.Callback());
    if (inbox.is_empty()) return absl::InternalError("no answer yet");
    if (!inbox.answer->ok()) return inbox.answer->status();
    return (*inbox.answer)->values[0];
  }

  void CreateSyncNamespace(uint32_t num_workers) {
    CreateNamespaceRequest request;
    request.name_space = "sync";
    request.config.mode = Mode::kSync;
    request.config.num_workers = num_workers;
    ASSERT_OK(store_.CreateNamespace(request));
    InitRequest init;
    init.name_space = "sync";
    init.entries.push_back({"w", Filled(0)});
    ASSERT_OK(InitNow(store_, std::move(init)));
  }

  ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{
      {.budget_bytes = 1 << 20, .max_wait = absl::Minutes(5)},
      &backend_,
      &alarms_};
};

TEST_F(MemoryTensorStoreTest, UpdatesInPlaceWhenNobodyReads) {
  ASSERT_OK(Init("w", 1));
  const char* before = Pull(PullOf("w"))->tensor.data();

  ASSERT_OK(Push(PushOf("w", 2)));

  ASSERT_OK_AND_ASSIGN(const Value value, Pull(PullOf("w")));
  EXPECT_EQ(value.tensor.data(), before);
  EXPECT_EQ(First(value), 2);
}

TEST_F(MemoryTensorStoreTest, ReaderKeepsTheValueItPulled) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK_AND_ASSIGN(const Value read, Pull(PullOf("w")));

  ASSERT_OK(Push(PushOf("w", 2)));

  EXPECT_EQ(First(read), 1);
  EXPECT_EQ(First(*Pull(PullOf("w"))), 2);
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

TEST_F(MemoryTensorStoreTest, WeightsAndRowsOfOneKeyAreRefusedTogether) {
  ASSERT_OK(
      store_.SetRule({.key_pattern = "*", .rule = RuleSpec{"average", {}}}));
  ASSERT_OK(Init("w", 1));
  PushEntry heavy = PushOf("w", 8).entries[0];
  heavy.weight = 3;
  const PushEntry rows = {
      .key = "w",
      .tensor = Filled(8, {1}),
      .rows = *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 0))};
  for (const auto& entries : {std::vector<PushEntry>{rows, heavy},
                              std::vector<PushEntry>{heavy, rows}}) {
    PushRequest request;
    request.entries = entries;
    EXPECT_THAT(Push(std::move(request)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("none with rows, got 3")));
  }
  EXPECT_EQ(Pull(PullOf("w"))->version, 1u);
}

TEST_F(MemoryTensorStoreTest, InitThatNobodyWantsAnyMoreEnds) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_OK(store_.SetRule(
        {.key_pattern = absl::StrCat("*x", i),
         .rule = RuleSpec{.name = "sgd", .hyperparameters = {}}}));
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
  EXPECT_EQ(store_.DescribeNamespace("")->num_keys, 0u);
}

TEST_F(MemoryTensorStoreTest, FailedUpdateLeavesValueAndVersion) {
  ASSERT_OK(Init("w", 1));
  backend_.FailApply(absl::InternalError("broken"));

  EXPECT_THAT(Push(PushOf("w", 2)), StatusIs(absl::StatusCode::kInternal));
  backend_.FailApply(absl::OkStatus());

  ASSERT_OK_AND_ASSIGN(const Value value, Pull(PullOf("w")));
  EXPECT_EQ(value.version, 1u);
  EXPECT_EQ(First(value), 1);
}

TEST_F(MemoryTensorStoreTest, FailedRoundIsOwedByEveryWorker) {
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
  EXPECT_EQ(store_.DescribeNamespace("sync")->rounds_failed, 1u);

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

  EXPECT_EQ(store_.DescribeNamespace("sync")->rounds_failed, 2u);
  EXPECT_THAT(Push(SyncPush(0, 2, 10)), StatusIs(absl::StatusCode::kAborted));
  ASSERT_OK(Push(SyncPush(0, 1, 1)));
  ASSERT_OK(Push(SyncPush(0, 2, 10)));
  EXPECT_EQ(First(*Pull(SyncPull(0))), 10);
  EXPECT_EQ(Pull(SyncPull(0))->version, 3u);
}

TEST_F(MemoryTensorStoreTest, StepOfAFailedRoundMayBePushedAgain) {
  CreateSyncNamespace(1);
  backend_.FailApply(absl::InternalError("broken"));
  ASSERT_OK(Push(SyncPush(0, 1, 5)));
  backend_.FailApply(absl::OkStatus());
  ASSERT_THAT(Pull(SyncPull(0)), StatusIs(absl::StatusCode::kAborted));

  ASSERT_OK(Push(SyncPush(0, 1, 5)));

  EXPECT_EQ(First(*Pull(SyncPull(0))), 5);
}

TEST_F(MemoryTensorStoreTest, ReplaceEndsOpenRoundsAndNobodyOwesThem) {
  CreateSyncNamespace(2);
  ASSERT_OK(Push(SyncPush(0, 3, 1)));
  Inbox<PullReply> waiting;
  store_.Pull(SyncPull(0), {}, waiting.Callback());
  InitRequest init;
  init.name_space = "sync";
  init.on_existing = OnExisting::kReplace;
  init.entries.push_back({"w", Filled(3)});

  ASSERT_OK(InitNow(store_, std::move(init)));

  EXPECT_THAT(*waiting.answer,
              AllOf(StatusIs(absl::StatusCode::kAborted, HasSubstr("replaced")),
                    HasReason(Reason::kKeyReplaced, {{"key", "w"}})));
  EXPECT_EQ(First(*Pull(SyncPull(0))), 3);
  EXPECT_OK(Push(SyncPush(0, 4, 1)));
  EXPECT_OK(Push(SyncPush(1, 4, 1)));
  EXPECT_EQ(First(*Pull(SyncPull(0))), 2);
}

TEST_F(MemoryTensorStoreTest, DeleteEndsOpenRoundsAndNobodyOwesThem) {
  CreateSyncNamespace(2);
  ASSERT_OK(Push(SyncPush(0, 1, 1)));
  PullRequest pull = SyncPull(0);
  pull.wait_for_keys = true;
  Inbox<PullReply> waiting;
  store_.Pull(pull, {}, waiting.Callback());
  ASSERT_TRUE(waiting.is_empty());

  ASSERT_OK(store_.Delete({.name_space = "sync", .keys = {"w"}}));

  ASSERT_FALSE(waiting.is_empty());
  EXPECT_THAT(*waiting.answer,
              AllOf(StatusIs(absl::StatusCode::kNotFound),
                    HasReason(Reason::kKeyNotFound, {{"key", "w"}})));
  EXPECT_EQ(store_.DescribeNamespace("sync")->rounds_open, 0u);
}

TEST_F(MemoryTensorStoreTest, VersionsAndRevisionsOutliveKeys) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK(Push(PushOf("w", 2)));
  ASSERT_OK(Push(PushOf("w", 3)));
  const uint64_t revision = store_.DescribeNamespace("")->revision;

  ASSERT_OK(store_.Delete({.keys = {"w"}}));
  ASSERT_OK(Init("w", 4));

  EXPECT_EQ(Pull(PullOf("w"))->version, 4u);
  EXPECT_EQ(store_.DescribeNamespace("")->revision, revision + 2);
}

TEST_F(MemoryTensorStoreTest, CallRaisesTheRevisionOnceIfItChangesAnything) {
  const auto revision = [&] { return store_.DescribeNamespace("")->revision; };
  const uint64_t before = revision();

  ASSERT_OK(Init("a", 1));
  ASSERT_OK(Init("b", 1));
  EXPECT_EQ(revision(), before + 2);

  PushRequest both = PushOf("a", 2);
  both.entries.push_back(PushOf("b", 3).entries[0]);
  ASSERT_OK(Push(both));
  EXPECT_EQ(revision(), before + 3);

  EXPECT_FALSE(Push(PushOf("c", 2)).ok());
  ASSERT_OK(Pull(PullOf("a")));
  EXPECT_EQ(revision(), before + 3);
  ASSERT_OK(store_.Delete({.keys = {"a", "b"}}));
  EXPECT_EQ(revision(), before + 4);
}

TEST_F(MemoryTensorStoreTest, WaitEndsAtItsDeadlineAndNamesTheVersion) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;
  store_.Pull(PullOf("w", 3), {.timeout = absl::Seconds(2)}, inbox.Callback());

  alarms_.Advance(absl::Seconds(1));
  EXPECT_TRUE(inbox.is_empty());
  EXPECT_EQ(store_.DescribeNamespace("")->calls_waiting, 1u);
  alarms_.Advance(absl::Seconds(1));

  ASSERT_FALSE(inbox.is_empty());
  EXPECT_THAT(*inbox.answer,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "waited 2s: key \"w\": expected version 3, got 1"));
  EXPECT_EQ(store_.DescribeNamespace("")->calls_waiting, 0u);
}

// What a call waits for is looked for without holding others up.
TEST_F(MemoryTensorStoreTest, DeadlineOfAPullOfVeryManyKeysNamesTheFirst) {
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

TEST_F(MemoryTensorStoreTest, WaitOfAWorkerNamesTheMissingRanks) {
  CreateSyncNamespace(3);
  ASSERT_OK(Push(SyncPush(1, 3, 1)));
  Inbox<PullReply> inbox;
  store_.Pull(SyncPull(1), {.timeout = absl::Seconds(1)}, inbox.Callback());

  alarms_.Advance(absl::Seconds(1));

  EXPECT_THAT(*inbox.answer,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("round 3 of \"w\": waiting for ranks 0, 2")));
}

TEST_F(MemoryTensorStoreTest, ServerBoundsWaitsWithoutADeadline) {
  Inbox<PullReply> inbox;
  PullRequest request = PullOf("later");
  request.wait_for_keys = true;
  store_.Pull(request, {}, inbox.Callback());

  alarms_.Advance(absl::Minutes(5));

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      HasSubstr("does not exist yet")));
}

TEST_F(MemoryTensorStoreTest, AnsweredWaitLeavesNoAlarm) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;
  store_.Pull(PullOf("w", 2), {}, inbox.Callback());
  EXPECT_EQ(alarms_.num_pending(), 1u);

  ASSERT_OK(Push(PushOf("w", 2)));

  EXPECT_FALSE(inbox.is_empty());
  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(MemoryTensorStoreTest, CancelledWaitEndsAtOnce) {
  ASSERT_OK(Init("w", 1));
  const auto cancellation = std::make_shared<Cancellation>();
  Inbox<PullReply> inbox;
  store_.Pull(PullOf("w", 2), {.cancellation = cancellation}, inbox.Callback());

  cancellation->Cancel();

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(store_.DescribeNamespace("")->calls_waiting, 0u);
}

TEST_F(MemoryTensorStoreTest, ValuesThatNobodyWantsAreNotConverted) {
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

TEST_F(MemoryTensorStoreTest, CallCancelledBeforeItWaitsEndsToo) {
  ASSERT_OK(Init("w", 1));
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  Inbox<PullReply> inbox;

  store_.Pull(PullOf("w", 2), {.cancellation = cancellation}, inbox.Callback());

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(MemoryTensorStoreTest, PullOfManyKeysWaitsForTheLast) {
  ASSERT_OK(Init("a", 1));
  ASSERT_OK(Init("b", 1));
  PullRequest request;
  request.entries = {{"a", 2}, {"b", 2}, {"c", 0}};
  request.wait_for_keys = true;
  Inbox<PullReply> inbox;
  store_.Pull(request, {}, inbox.Callback());

  ASSERT_OK(Push(PushOf("b", 3)));
  ASSERT_OK(Push(PushOf("a", 2)));
  EXPECT_TRUE(inbox.is_empty());
  ASSERT_OK(Init("c", 4));

  ASSERT_FALSE(inbox.is_empty());
  ASSERT_OK(*inbox.answer);
  EXPECT_EQ(First((*inbox.answer)->values[0]), 2);
  EXPECT_EQ(First((*inbox.answer)->values[1]), 3);
  EXPECT_EQ(First((*inbox.answer)->values[2]), 4);
}

TEST_F(MemoryTensorStoreTest, DeleteEndsWaitsForTheKey) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;
  store_.Pull(PullOf("w", 2), {}, inbox.Callback());

  DeleteRequest request;
  request.keys = {"w"};
  ASSERT_OK(store_.Delete(request));

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kNotFound));
}

// Such a pull watches its keys in several turns of the namespace's mutex.
TEST_F(MemoryTensorStoreTest, LargePullEndsOnceWhileOneOfItsKeysGoes) {
  constexpr int kNumPulls = 200;
  PullRequest request;
  for (int i = 0; i < 1100; ++i) {
    request.entries.push_back({absl::StrCat(i), i == 1099 ? 1000u : 0u});
    ASSERT_OK(Init(request.entries.back().key, 1));
  }
  std::array<std::atomic<int>, kNumPulls> num_answers = {};
  std::thread deleter([&] {
    for (int i = 0; i < kNumPulls; ++i) {
      EXPECT_OK(store_.Delete({.keys = {"7"}}));
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

TEST_F(MemoryTensorStoreTest, DeleteEndsPullsThatWaitForAnotherKey) {
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

  ASSERT_OK(store_.Delete({.keys = {"b"}}));

  ASSERT_FALSE(inbox.is_empty());
  EXPECT_THAT(*inbox.answer,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"b\"")));
  EXPECT_EQ(ReasonOf(inbox.answer->status()), Reason::kKeyNotFound);
  EXPECT_TRUE(patient.is_empty());
  store_.CancelWaits();
}

TEST_F(MemoryTensorStoreTest, PullThatWaitsForAVersionPinsNoOtherKey) {
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

TEST_F(MemoryTensorStoreTest, NamesOfAWaitingPullAreCounted) {
  PullRequest request;
  request.wait_for_keys = true;
  for (int i = 0; i < 500; ++i) {
    request.entries.push_back({absl::StrCat(std::string(1000, 'k'), i), 0});
  }
  const uint64_t before = store_.used_bytes();
  Inbox<PullReply> first;
  Inbox<PullReply> second;

  store_.Pull(request, {.timeout = absl::Seconds(1)}, first.Callback());
  EXPECT_GE(store_.used_bytes(), before + 500'000);
  store_.Pull(request, {}, second.Callback());

  ASSERT_FALSE(second.is_empty());
  EXPECT_THAT(*second.answer, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(ReasonOf(second.answer->status()), Reason::kOverBudget);
  alarms_.Advance(absl::Seconds(1));
  ASSERT_FALSE(first.is_empty());
  EXPECT_EQ(store_.used_bytes(), before);
}

TEST_F(MemoryTensorStoreTest, ElementsOfAWaitingRepeatAreCounted) {
  constexpr uint64_t kBytes = 64 * 1024;
  InitRequest init;
  init.entries.push_back({"w", Filled(1, {kBytes / 4})});
  ASSERT_OK(InitNow(store_, std::move(init)));
  PushRequest request = PushOf("w", 2);
  request.entries[0].tensor = Filled(2, {kBytes / 4});
  request.call_id = CallId{"client", 1};
  Inbox<PushReply> first;
  Inbox<PushReply> repeat;
  backend_.Hold();
  std::thread pusher([&] { store_.Push(request, {}, first.Callback()); });
  backend_.WaitUntilHeld();
  const uint64_t before = store_.used_bytes();

  store_.Push(request, {}, repeat.Callback());

  EXPECT_GE(store_.used_bytes(), before + kBytes);
  backend_.Release();
  pusher.join();
  first.Wait();
  repeat.Wait();
  EXPECT_OK(*repeat.answer);
}

// The time that this thread has computed: other load does not count.
double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * time.tv_nsec;
}

TEST_F(MemoryTensorStoreTest, WakesDoNotTakeLongerForPullsOfManyKeys) {
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
    const double start = ThreadSeconds();
    for (int i = 0; i < 100; ++i) {
      store.Push(PushOf("w", 1), {}, [](auto reply) { ASSERT_OK(reply); });
    }
    return ThreadSeconds() - start;
  };
  const double alone = push_many();
  for (int i = 0; i < 10; ++i) store.Pull(pull, {}, [](auto) {});

  // Looking at all entries would make it some 1000 times as long.
  EXPECT_LT(push_many(), 100 * alone);
}

TEST_F(MemoryTensorStoreTest, DeleteDuringAnUpdateLetsThePushSucceed) {
  ASSERT_OK(Init("w", 1));
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();

  DeleteRequest request;
  request.keys = {"w"};
  EXPECT_OK(store_.Delete(request));
  backend_.Release();
  pusher.join();

  EXPECT_THAT(Pull(PullOf("w")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(store_.used_bytes(), 0u);
}

TEST_F(MemoryTensorStoreTest, ReplaceDuringAnUpdateTakesALaterVersion) {
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

TEST_F(MemoryTensorStoreTest, DeleteNamespaceEndsItsWaits) {
  CreateSyncNamespace(2);
  ASSERT_OK(Push(SyncPush(0, 1, 1)));
  Inbox<PullReply> inbox;
  store_.Pull(SyncPull(0), {}, inbox.Callback());

  ASSERT_OK(store_.DeleteNamespace("sync"));

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kNotFound,
                                      HasSubstr("\"sync\" was deleted")));
  EXPECT_EQ(store_.used_bytes(), 0u);
}

TEST_F(MemoryTensorStoreTest, CancelWaitsEndsWaitsAndRefusesNewOnes) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;
  store_.Pull(PullOf("w", 2), {}, inbox.Callback());

  store_.CancelWaits();

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Pull(PullOf("w", 2)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(Pull(PullOf("w")));
}

TEST_F(MemoryTensorStoreTest, PushReservesRoomForANewValue) {
  // 0.4 MiB of value, contribution and room each: more than the budget.
  InitRequest init;
  init.entries.push_back({"w", Filled(1, {100000})});
  ASSERT_OK(InitNow(store_, std::move(init)));
  PushRequest push;
  push.entries.push_back({"w", false, Filled(2, {100000})});

  EXPECT_THAT(Push(std::move(push)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("expected at most 1048576 bytes")));

  EXPECT_EQ(Pull(PullOf("w"))->version, 1u);
  const MemoryUse memory = store_.DescribeNamespace("")->memory;
  EXPECT_EQ(memory.values, 400000u);
  EXPECT_EQ(memory.contributions, 0u);
}

TEST_F(MemoryTensorStoreTest, StateIsReservedWhenTheRuleIsSet) {
  ASSERT_OK(Init("w", 1));
  SetRuleRequest request;
  request.rule = RuleSpec{.name = "adam", .hyperparameters = {}};

  ASSERT_OK(store_.SetRule(request));

  EXPECT_EQ(store_.DescribeNamespace("")->memory.state, 2 * 4 * sizeof(float));
}

TEST_F(MemoryTensorStoreTest, NamespaceGoesOnWhileStatesAreAllocated) {
  ASSERT_OK(Init("w", 1));
  SetRuleRequest request;
  request.rule = RuleSpec{.name = "adam", .hyperparameters = {}};
  backend_.WhenAllocating([this] {
    EXPECT_OK(Push(PushOf("w", 2)));
    EXPECT_OK(Init("new", 1));
  });

  ASSERT_OK(store_.SetRule(request));

  EXPECT_EQ(First(*Pull(PullOf("w"))), 2);
  // The key that came meanwhile has the rule too.
  const ListReply list = store_.List({}).value();
  for (const KeyStatus& key : list.keys) {
    EXPECT_EQ(key.rule.name, "adam") << key.key;
    EXPECT_EQ(key.state_bytes, 2 * 4 * sizeof(float)) << key.key;
  }
}

TEST_F(MemoryTensorStoreTest, RuleWithoutRoomForItsStateChangesNothing) {
  InitRequest init;
  init.entries.push_back({"small", Filled(1)});
  init.entries.push_back({"w", Filled(1, {100000})});
  ASSERT_OK(InitNow(store_, std::move(init)));
  SetRuleRequest request;
  request.rule = RuleSpec{.name = "adam", .hyperparameters = {}};

  EXPECT_THAT(store_.SetRule(request),
              StatusIs(absl::StatusCode::kResourceExhausted));

  const NamespaceStatus status = *store_.DescribeNamespace("");
  EXPECT_EQ(status.memory.state, 0u);
  EXPECT_EQ(status.rules[0].rule.name, "assign");
}

TEST_F(MemoryTensorStoreTest, AllocationThatFailsGivesItsBytesBack) {
  backend_.FailAllocate(absl::ResourceExhaustedError("no memory"));

  EXPECT_THAT(Init("w", 1), StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(store_.used_bytes(), 0u);
}

TEST_F(MemoryTensorStoreTest, MemoryOfARoundDoesNotGrowWithItsWorkers) {
  CreateSyncNamespace(100);
  uint64_t most = 0;

  for (uint32_t rank = 0; rank < 100; ++rank) {
    ASSERT_OK(Push(SyncPush(rank, 1, rank)));
    most =
        std::max(most, store_.DescribeNamespace("sync")->memory.contributions);
  }

  EXPECT_LE(most, Rounds::kMinFold * 4 * sizeof(float));
  EXPECT_EQ(First(*Pull(SyncPull(7))), 99 * 100 / 2);
  EXPECT_EQ(store_.DescribeNamespace("sync")->memory.contributions, 0u);
}

TEST_F(MemoryTensorStoreTest, FoldingKeepsTheBits) {
  CreateSyncNamespace(30);
  float expected = 0;
  for (int rank = 0; rank < 30; ++rank) expected += 1.0f / (rank + 3);

  // 7 and 30 have no common factor: every rank once, in a scattered order.
  for (int i = 0; i < 30; ++i) {
    const uint32_t rank = i * 7 % 30;
    ASSERT_OK(Push(SyncPush(rank, 1, 1.0f / (rank + 3))));
  }

  EXPECT_EQ(First(*Pull(SyncPull(0))), expected);
}

TEST_F(MemoryTensorStoreTest, FoldThatFailsLosesNothing) {
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

TEST_F(MemoryTensorStoreTest, PullOfManyBusyKeysEnds) {
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

TEST_F(MemoryTensorStoreTest, KeysAndSkipsCostBudgetToo) {
  MemoryTensorStore store({.budget_bytes = 100'000}, &backend_, &alarms_);
  InitRequest init;
  for (int i = 0; i < 1000; ++i) {
    init.entries.push_back(
        {absl::StrCat("key", i), *Tensor::Filled(DType::kF32, {0}, 0)});
  }

  EXPECT_THAT(InitNow(store, init),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(store.used_bytes(), 0u);
}

TEST_F(MemoryTensorStoreTest, SkippedContributionsAreCounted) {
  CreateSyncNamespace(4096);
  PushRequest push = SyncPush(4000, 1, 0);
  push.entries[0].skip = true;
  push.entries[0].tensor = Tensor();
  const uint64_t before = store_.used_bytes();

  ASSERT_OK(Push(std::move(push)));

  EXPECT_GE(store_.used_bytes(), before + kContributionOverheadBytes);
  EXPECT_LE(store_.used_bytes(), before + 2 * kContributionOverheadBytes);
}

TEST_F(MemoryTensorStoreTest, MissingKeyEndsAPullThatWouldWaitForAnother) {
  ASSERT_OK(Init("w", 1));
  PullRequest request;
  request.entries = {{"w", 9}, {"absent", 0}};

  EXPECT_THAT(Pull(request),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

// The caller's cancellation refers to the call, and the call's answer to what
// it needs: neither may keep the other alive.
TEST_F(MemoryTensorStoreTest, PushPullThatHasWaitedIsGoneWithItsCancellation) {
  CreateSyncNamespace(2);
  auto cancellation = std::make_shared<Cancellation>();
  const std::weak_ptr<Cancellation> watch = cancellation;
  Inbox<PullReply> inbox;

  store_.PushPull(SyncPush(0, 1, 5), {.cancellation = cancellation},
                  inbox.Callback());
  EXPECT_TRUE(inbox.is_empty());
  EXPECT_OK(Push(SyncPush(1, 1, 5)));
  inbox.Wait();
  cancellation.reset();

  EXPECT_TRUE(watch.expired());
}

TEST_F(MemoryTensorStoreTest, PushPullOfTooMuchHasNoEffect) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;

  store_.PushPull(PushOf("w", 2), {.max_reply_bytes = 15}, inbox.Callback());

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr("at most 15 bytes, got 16")));
  EXPECT_EQ(ReasonOf(inbox.answer->status()), Reason::kReplyTooLarge);
  EXPECT_EQ(Pull(PullOf("w"))->version, 1u);
}

TEST_F(MemoryTensorStoreTest, DescribeShowsTheDefaultsAndThePresentRule) {
  CreateSyncNamespace(2);
  SetRuleRequest request;
  request.name_space = "sync";
  request.rule = RuleSpec{.name = "sgd", .hyperparameters = {}};
  ASSERT_OK(store_.SetRule(request));

  const NamespaceConfig config = store_.DescribeNamespace("sync")->config;

  EXPECT_EQ(config.rule.name, "sgd");
  EXPECT_EQ(config.max_open_rounds, 4u);
}

TEST_F(MemoryTensorStoreTest, NumberOfNamespacesIsBounded) {
  MemoryTensorStore store({.max_namespaces = 2}, &backend_, &alarms_);
  ASSERT_OK(store.CreateNamespace({.name_space = "a"}));

  EXPECT_THAT(store.CreateNamespace({.name_space = "b"}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(MemoryTensorStoreTest, NamespacesThatAreShownAreListedAmongMany) {
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK(
        store_.CreateNamespace({.name_space = absl::StrFormat("%03d", i)}));
  }
  const auto names = [&](absl::string_view after, size_t max_namespaces) {
    std::vector<std::string> names;
    const auto listed =
        store_.ListNamespaces(after, max_namespaces, [](absl::string_view n) {
          return n == "010" || n == "199" || n == "299";
        });
    for (const NamespaceStatus& each : *listed) {
      names.push_back(each.name);
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
  void Happened(StoreEvent event, absl::string_view name_space,
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
  ASSERT_OK(store.CreateNamespace(
      {.name_space = "n", .config = {.mode = Mode::kSync, .num_workers = 2}}));
  InitRequest init{.name_space = "n"};
  init.entries.push_back({"w", Filled(1)});
  ASSERT_OK(InitNow(store, std::move(init)).status());
  ASSERT_OK(
      store.SetRule({.name_space = "n",
                     .key_pattern = "w*",
                     .rule = RuleSpec{.name = "sgd", .hyperparameters = {}}}));
  const Worker stays =
      store
          .Join(
              {.name_space = "n", .worker_name = "a", .lease = absl::Hours(1)})
          ->worker;
  ASSERT_OK(store
                .Join({.name_space = "n",
                       .worker_name = "b",
                       .lease = absl::Seconds(1)})
                .status());
  PushRequest push{.name_space = "n", .worker = stays, .step = 1};
  push.entries.push_back({"w", false, Filled(1)});
  Inbox<PushReply> pushed;
  store.Push(std::move(push), {}, pushed.Callback());

  alarms.Advance(absl::Seconds(2));
  ASSERT_OK(store.Leave({.name_space = "n", .worker = stays}));
  ASSERT_OK(store.DeleteNamespace("n"));

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

}  // namespace
}  // namespace tensorkv
