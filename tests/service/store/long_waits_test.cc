// Calls that wait for what may take long: a checkpoint, a change of rules,
// another attempt, an update. None outlives its time or its caller.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/once_calls.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::OfPattern;
using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::SetHyperparametersOf;
using ::tensorkv::testing::SetMultipliersOf;
using ::tensorkv::testing::SetRuleOf;
using ::tensorkv::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Waits at its begin until it may go on.
struct HeldSnapshot {
  Notification has_begun;
  Notification may_go_on;
  testing::KeptSnapshot sink{[this](const NamespaceSnapshot&) {
    has_begun.Notify();
    may_go_on.WaitForNotification();
    return absl::OkStatus();
  }};
};

CallContext Until(absl::Duration timeout,
                  std::shared_ptr<Cancellation> cancellation = nullptr) {
  return {.timeout = timeout, .cancellation = std::move(cancellation)};
}

// Calls that change rules, all of namespace "default".
struct RuleCall {
  std::string name;
  std::function<absl::Status(MemoryTensorStore&, const CallContext&)> make;
};

SetRuleRequest FirstChange() {
  SetRuleRequest request = SetRuleOf("adam", "*");
  SetCallId({"c", 1}, request);
  return request;
}

std::vector<RuleCall> RuleCalls() {
  return {{"SetRule",
           [](MemoryTensorStore& store, const CallContext& context) {
             return testing::MakeNow(store, SetRuleOf("sgd", "*"), context);
           }},
          {"SetMultipliers",
           [](MemoryTensorStore& store, const CallContext& context) {
             return testing::MakeNow(
                 store, SetMultipliersOf({.learning_rate = 2}, "*"), context);
           }},
          {"UnsetRule",
           [](MemoryTensorStore& store, const CallContext& context) {
             return testing::MakeNow(store, OfPattern<UnsetRuleRequest>("*"),
                                     context);
           }},
          {"UnsetMultipliers",
           [](MemoryTensorStore& store, const CallContext& context) {
             return testing::MakeNow(
                 store, OfPattern<UnsetMultipliersRequest>("*"), context);
           }},
          {"SetHyperparameters",
           [](MemoryTensorStore& store, const CallContext& context) {
             return testing::MakeNow(
                        store,
                        SetHyperparametersOf({{"learning_rate", 2}}, "*"),
                        context)
                 .status();
           }},
          {"RepeatOfTheFirst",
           [](MemoryTensorStore& store, const CallContext& context) {
             return testing::MakeNow(store, FirstChange(), context);
           }}};
}

// While a rule is being changed: it allocates the state of a key.
class ChangingRuleTest : public ::testing::Test {
 protected:
  ChangingRuleTest() {
    InitRequest init;
    init.entries.push_back({"k", *Tensor::Filled(DType::kF32, {4}, 1)});
    EXPECT_OK(InitNow(store_, std::move(init)));
    EXPECT_OK(testing::MakeNow(store_, SetRuleOf("sgd", "*")));
    backend_.WhenAllocating([this] {
      is_changing_.Notify();
      may_change_.WaitForNotification();
    });
  }

  Notification is_changing_;
  Notification may_change_;
  ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{{}, &backend_, &alarms_};
};

class RuleWaitTest : public ChangingRuleTest,
                     public ::testing::WithParamInterface<RuleCall> {
 protected:
  // Makes the call while another one changes rules, until `end` ends it.
  absl::Status MakeBesideAnother(const CallContext& context,
                                 std::function<void()> end) {
    Background other(
        [this] { return testing::MakeNow(store_, FirstChange()); });
    is_changing_.WaitForNotification();
    Background call([&] { return GetParam().make(store_, context); });
    while (alarms_.num_pending() == 0) std::this_thread::yield();
    end();
    absl::Status status = call.Result();
    may_change_.Notify();
    EXPECT_OK(other.Result());
    return status;
  }
};

INSTANTIATE_TEST_SUITE_P(, RuleWaitTest, ::testing::ValuesIn(RuleCalls()),
                         [](const auto& info) { return info.param.name; });

TEST_P(RuleWaitTest, EndsWithTheTimeOfTheCall) {
  EXPECT_THAT(
      MakeBesideAnother(Until(absl::Seconds(2)),
                        [this] { alarms_.Advance(absl::Seconds(2)); }),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("waited 2s")));
}

TEST_P(RuleWaitTest, EndsWithItsCaller) {
  const auto cancellation = std::make_shared<Cancellation>();

  EXPECT_THAT(MakeBesideAnother(Until(absl::Seconds(9), cancellation),
                                [&] { cancellation->Cancel(); }),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("waited")));
}

TEST_F(ChangingRuleTest, RepeatsWaitWithoutAThread) {
  constexpr int kRepeats = 8;
  Background first([this] { return testing::MakeNow(store_, FirstChange()); });
  is_changing_.WaitForNotification();

  std::vector<Answer<absl::StatusOr<SetRuleReply>>> answers(kRepeats);
  for (const auto& answer : answers) {
    store_.SetRule(FirstChange(), {},
                   [answer](absl::StatusOr<SetRuleReply> reply) {
                     answer.Set(std::move(reply));
                   });
  }
  for (const auto& answer : answers) EXPECT_FALSE(answer.HasArrived());
  may_change_.Notify();
  EXPECT_OK(first.Result());

  for (const auto& answer : answers) EXPECT_OK(answer.Wait());
}

// Changes of rules whose answers come later, on no thread of theirs.
class RulesQueueTest : public ChangingRuleTest {
 protected:
  ~RulesQueueTest() override { AwaitEnded(num_begun_); }

  // Begins to change rules.
  void Change(const std::string& rule, const CallContext& context = {}) {
    ++num_begun_;
    store_.SetRule(SetRuleOf(rule, "*"), context,
                   [this, rule](absl::StatusOr<SetRuleReply> reply) {
                     MutexLock lock(&mutex_);
                     ended_.emplace_back(rule, reply.status().code());
                     changed_.SignalAll();
                   });
  }
  using Ended = std::vector<std::pair<std::string, absl::StatusCode>>;
  Ended AwaitEnded(size_t count) {
    MutexLock lock(&mutex_);
    while (ended_.size() < count) changed_.Wait(&mutex_);
    return ended_;
  }

  size_t num_begun_ = 0;
  Mutex mutex_;
  CondVar changed_;
  Ended ended_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(RulesQueueTest, ChangesFollowEachOtherInTheirOrder) {
  constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
  Change("adam");
  is_changing_.WaitForNotification();
  Change("sgd(momentum=0.5)");
  Change("accumulate");
  Change("adagrad");
  EXPECT_TRUE(AwaitEnded(0).empty());

  may_change_.Notify();

  for (const auto& [rule, code] : AwaitEnded(4)) EXPECT_EQ(code, kOk) << rule;
  EXPECT_EQ(
      testing::MakeNow(store_, testing::StatOf({"k"}))->keys(0).rule().name(),
      "adagrad");
}

TEST_F(RulesQueueTest, WhoGivesUpIsPassedOver) {
  const auto cancellation = std::make_shared<Cancellation>();
  Change("adam");
  is_changing_.WaitForNotification();
  Change("sgd", Until(absl::Seconds(2)));
  Change("adagrad", {.cancellation = cancellation});
  Change("accumulate");

  cancellation->Cancel();
  alarms_.Advance(absl::Seconds(2));
  EXPECT_THAT(AwaitEnded(2),
              ElementsAre(Pair("adagrad", absl::StatusCode::kCancelled),
                          Pair("sgd", absl::StatusCode::kDeadlineExceeded)));
  may_change_.Notify();

  EXPECT_THAT(AwaitEnded(4),
              Contains(Pair("accumulate", absl::StatusCode::kOk)));
}

TEST_F(RulesQueueTest, WaitsAreCountedAndEndWithThoseOfOthers) {
  Change("adam");
  is_changing_.WaitForNotification();
  Change("sgd");
  EXPECT_EQ(store_.Summaries()[0]
                .waits[static_cast<size_t>(WaitReason::kRules)]
                .calls_waiting,
            1u);

  store_.InterruptWaits(absl::UnavailableError("a device has failed"));

  EXPECT_THAT(AwaitEnded(1),
              ElementsAre(Pair("sgd", absl::StatusCode::kUnavailable)));
  may_change_.Notify();
  AwaitEnded(2);
}

// Each attempt finds other rules when it has made its key, the last also a
// change under way.
TEST_F(RulesQueueTest, InitThatChangesOutrunWaitsForThemOnNoThread) {
  // Each has one state, so that an attempt allocates once.
  const std::vector<std::string> rules = {"adagrad", "sgd(momentum=0.5)",
                                          "adagrad"};
  size_t num_changes = 0;
  std::function<void()> change = [&] {
    EXPECT_OK(testing::MakeNow(store_, SetRuleOf(rules[num_changes], "*")));
    if (++num_changes < rules.size()) return backend_.WhenAllocating(change);
    backend_.WhenAllocating([this] {
      is_changing_.Notify();
      may_change_.WaitForNotification();
    });
    Change("sgd(momentum=0.9)");
    is_changing_.WaitForNotification();
  };
  backend_.WhenAllocating(change);
  InitRequest init;
  init.entries.push_back({"new", *Tensor::Filled(DType::kF32, {4}, 1)});
  const Answer<absl::StatusOr<InitReply>> answer;

  store_.Init(std::move(init), {}, [answer](absl::StatusOr<InitReply> reply) {
    answer.Set(std::move(reply));
  });
  EXPECT_FALSE(answer.HasArrived());
  may_change_.Notify();

  EXPECT_OK(answer.Wait());
  AwaitEnded(1);
  EXPECT_EQ(num_changes, rules.size());
}

// It has no deadline: what is to be saved must be saved.
TEST_F(RulesQueueTest, CheckpointIsTakenOnceRulesStay) {
  Change("adam");
  is_changing_.WaitForNotification();
  HeldSnapshot saved;
  saved.may_go_on.Notify();
  Background taken([&] { return store_.TakeSnapshot({}, saved.sink); });
  store_.InterruptWaits(absl::UnavailableError("a device has failed"));

  EXPECT_FALSE(saved.has_begun.HasBeenNotified());
  may_change_.Notify();

  EXPECT_OK(taken.Result());
  EXPECT_EQ(saved.sink.keys.size(), 1u);
}

TEST_F(RulesQueueTest, MoveDoesNotWaitForRules) {
  ASSERT_OK(store_.Fence({.num_partitions = 1, .partitions = {0}},
                         [] { return absl::OkStatus(); }));
  Change("adam");
  is_changing_.WaitForNotification();
  HeldSnapshot moved;
  moved.may_go_on.Notify();

  EXPECT_THAT(
      store_.TakeSnapshotOfFenced(moved.sink),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("its rules change")));
  store_.Unfence();
  may_change_.Notify();
  AwaitEnded(1);
}

class LongWaitsTest : public ::testing::Test {
 protected:
  LongWaitsTest() {
    InitRequest init;
    init.entries.push_back({"k", *Tensor::Filled(DType::kF32, {kMany}, 1)});
    EXPECT_OK(InitNow(store_, std::move(init)));
    EXPECT_OK(testing::MakeNow(store_, SetRuleOf("accumulate", "*")));
  }
  ~LongWaitsTest() override { backend_.Release(); }

  // More elements than an update computes on the caller's thread.
  static constexpr int64_t kMany = 1 << 19;

  // A digest of a key whose update is under way.
  absl::Status StatOfChanging(const CallContext& context,
                              std::function<void()> end) {
    backend_.Hold();
    PushRequest push;
    push.entries.push_back(
        {"k", false, *Tensor::Filled(DType::kF32, {kMany}, 1)});
    store_.Push(std::move(push), {}, [](absl::StatusOr<PushReply>) {});
    backend_.WaitUntilHeld();
    Background call([&] {
      return testing::MakeNow(store_, testing::DigestsOf({"k"}), context)
          .status();
    });
    while (alarms_.num_pending() == 0) std::this_thread::yield();
    end();
    absl::Status status = call.Result();
    backend_.Release();
    return status;
  }

  ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 1 << 30}, &backend_, &alarms_};
};

TEST_F(LongWaitsTest, StatOfCallerWhoHasGoneReadsNoValue) {
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();

  EXPECT_THAT(testing::MakeNow(store_, testing::DigestsOf({"k"}),
                               Until(absl::Seconds(9), cancellation)),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(LongWaitsTest, StatWithoutTimeReadsNoValue) {
  EXPECT_THAT(testing::MakeNow(store_, testing::DigestsOf({"k"}),
                               Until(absl::ZeroDuration())),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("digests of 0 keys were made, and of 1 were "
                                 "to follow, the next \"k\"")));
}

TEST_F(LongWaitsTest, StatWithDigestsWaitsForAnUpdateWhileItsCallerDoes) {
  const auto cancellation = std::make_shared<Cancellation>();

  EXPECT_THAT(StatOfChanging(Until(absl::Seconds(9), cancellation),
                             [&] { cancellation->Cancel(); }),
              StatusIs(absl::StatusCode::kCancelled));
}

// It waits for "k", while "other" changes.
TEST_F(LongWaitsTest, StatWithDigestsTellsTheCountsOfWhenItReadsTheValues) {
  InitRequest init;
  init.entries.push_back({"other", *Tensor::Filled(DType::kF32, {4}, 1)});
  ASSERT_OK(InitNow(store_, std::move(init)));
  backend_.Hold();
  PushRequest push;
  push.entries.push_back(
      {"k", false, *Tensor::Filled(DType::kF32, {kMany}, 1)});
  store_.Push(std::move(push), {}, [](absl::StatusOr<PushReply>) {});
  backend_.WaitUntilHeld();
  Background stat([&] {
    return testing::MakeNow(store_, testing::DigestsOf({"k", "other"}), {});
  });
  while (alarms_.num_pending() == 0) std::this_thread::yield();

  SetStateRequest set;
  set.entries.push_back(
      {"other", "update_count", *Tensor::Filled(DType::kU64, {}, 5)});
  ASSERT_OK(testing::SetStateNow(store_, std::move(set)));
  backend_.Release();

  ASSERT_OK_AND_ASSIGN(const StatReply reply, stat.Result());
  EXPECT_EQ(reply.keys(0).version(), 2u);
  EXPECT_EQ(reply.keys(0).update_count(), 1u);
  EXPECT_EQ(reply.keys(1).update_count(), 5u);
}

TEST_F(LongWaitsTest, StatsWithDigestsWaitOnNoThread) {
  constexpr int kCalls = 40;  // more than any pool has threads
  std::vector<Answer<absl::StatusOr<StatReply>>> answers(kCalls);
  backend_.Hold();
  PushRequest push;
  push.entries.push_back(
      {"k", false, *Tensor::Filled(DType::kF32, {kMany}, 1)});
  store_.Push(std::move(push), {}, [](absl::StatusOr<PushReply>) {});
  backend_.WaitUntilHeld();

  for (const auto& answer : answers) {
    store_.Stat(
        testing::DigestsOf({"k", "k"}), {},
        [answer](absl::StatusOr<StatReply> reply) { answer.Set(reply); });
  }
  for (const auto& answer : answers) EXPECT_FALSE(answer.HasArrived());
  backend_.Release();

  for (const auto& answer : answers) {
    const absl::StatusOr<StatReply> reply = answer.Wait();
    ASSERT_OK(reply);
    EXPECT_EQ(reply->keys(0).version(), 2u);
    EXPECT_EQ(reply->keys(0).digest(), reply->keys(1).digest());
  }
}

TEST_F(LongWaitsTest, StatWithDigestsWaitsForAnUpdateWhileItMay) {
  EXPECT_THAT(StatOfChanging(Until(absl::Seconds(2)),
                             [this] { alarms_.Advance(absl::Seconds(2)); }),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("key \"k\": its update is under way")));
}

// The end of a pull of many keys takes turns of the mutex, for which the thread
// of all leases and deadlines, or gRPC's, does not wait.
TEST_F(LongWaitsTest, LargePullIsEndedOnAnotherThreadThanTheAlarms) {
  InitRequest init;
  PullRequest pull;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = absl::StrCat("many", i);
    init.entries.push_back({key, *Tensor::Filled(DType::kF32, {1}, 1)});
    pull.entries.push_back({key, /*min_version=*/2});
  }
  ASSERT_OK(InitNow(store_, std::move(init)));
  const auto cancellation = std::make_shared<Cancellation>();
  using Ended = std::pair<absl::StatusCode, std::thread::id>;
  const auto begin = [&](const CallContext& context) {
    const Answer<Ended> ended;
    store_.Pull(pull, context, [ended](absl::StatusOr<PullReply> reply) {
      ended.Set({reply.status().code(), std::this_thread::get_id()});
    });
    return ended;
  };
  const Answer<Ended> cancelled = begin(Until(absl::Seconds(9), cancellation));
  const Answer<Ended> late = begin(Until(absl::Seconds(2)));

  cancellation->Cancel();
  alarms_.Advance(absl::Seconds(2));

  const Ended first = cancelled.Wait();
  EXPECT_EQ(first.first, absl::StatusCode::kCancelled);
  EXPECT_NE(first.second, std::this_thread::get_id());
  const Ended second = late.Wait();
  EXPECT_EQ(second.first, absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(second.second, std::this_thread::get_id());
}

// Each has its keys as of its own moment, whichever ends first.
TEST_F(LongWaitsTest, MoveAndCheckpointDoNotWaitForEachOther) {
  HeldSnapshot saved;
  HeldSnapshot moved;
  HeldSnapshot later;
  moved.may_go_on.Notify();
  later.may_go_on.Notify();
  Background taken([&] { return store_.TakeSnapshot({}, saved.sink); });
  saved.has_begun.WaitForNotification();
  const auto may_wait = [] { return absl::CancelledError("it waits"); };

  EXPECT_OK(store_.Fence({.num_partitions = 1, .partitions = {0}}, may_wait));
  EXPECT_OK(store_.TakeSnapshot({}, later.sink));
  EXPECT_OK(store_.TakeSnapshotOfFenced(moved.sink));

  EXPECT_EQ(moved.sink.keys.size(), 1u);
  EXPECT_EQ(later.sink.keys.size(), 1u);
  store_.Unfence();
  saved.may_go_on.Notify();
  EXPECT_OK(taken.Result());
  EXPECT_EQ(saved.sink.keys.size(), 1u);
}

TEST_F(LongWaitsTest, MoveDoesNotLeaveARoundBehindWhoseUpdateFails) {
  NamespaceConfig config = {.mode = Mode::kSync, .num_workers = 1};
  ASSERT_OK(testing::MakeNow(store_, testing::CreateOf("sync", config)));
  InitRequest init = {.name_space = "sync"};
  init.entries.push_back({"k", *Tensor::Filled(DType::kF32, {kMany}, 1)});
  ASSERT_OK(InitNow(store_, std::move(init)));
  backend_.Hold();
  backend_.FailApply(absl::ResourceExhaustedError("no memory"));
  PushRequest push = {.name_space = "sync", .worker = Worker{}, .step = 1};
  push.entries.push_back(
      {"k", false, *Tensor::Filled(DType::kF32, {kMany}, 1)});
  store_.Push(std::move(push), {}, [](absl::StatusOr<PushReply>) {});
  backend_.WaitUntilHeld();
  ASSERT_OK(store_.Fence({.num_partitions = 1, .partitions = {0}}, [] {
    return absl::CancelledError("a round is open");
  }));

  HeldSnapshot moved;
  moved.may_go_on.Notify();
  Background taken([&] { return store_.TakeSnapshotOfFenced(moved.sink); });
  backend_.Release();

  EXPECT_THAT(taken.Result(), StatusIs(absl::StatusCode::kUnavailable,
                                       HasSubstr("pushed again")));
  store_.Unfence();
}

TEST(OnceCallsTest, WaitingAttemptCountsWhatItsRequestTakesInMemory) {
  SetHyperparametersRequest request;
  constexpr int kNumHyperparameters = 1000;
  for (int i = 0; i < kNumHyperparameters; ++i) {
    (*request.mutable_hyperparameters())[absl::StrCat(i)] = 0;
  }

  // On the wire an entry takes less than 10 bytes.
  EXPECT_GE(BytesToKeep(request),
            kNumHyperparameters * (sizeof(std::string) + sizeof(double)));
}

}  // namespace
}  // namespace tensorkv
