// What a snapshot has, whatever happens while it is taken.

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "base/mutex.h"
#include "base/task_pool.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/worker_group.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/snapshot.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::StatusIs;
using ::testing::_;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Keeps the snapshot. When a namespace begins, its cut has been made.
class KeptSnapshot final : public SnapshotSink {
 public:
  using OnBegin = std::function<absl::Status(const NamespaceSnapshot&)>;
  explicit KeptSnapshot(OnBegin on_begin = nullptr)
      : on_begin_(std::move(on_begin)) {}

  absl::Status Begin(NamespaceSnapshot name_space) override {
    namespaces.push_back(std::move(name_space));
    return on_begin_ ? on_begin_(namespaces.back()) : absl::OkStatus();
  }
  absl::Status Add(KeySnapshot key) override {
    keys.push_back(std::move(key));
    if (on_add) on_add();
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }
  void Paused(absl::Duration) override {}

  std::vector<NamespaceSnapshot> namespaces;
  std::vector<KeySnapshot> keys;
  std::function<void()> on_add;

 private:
  const OnBegin on_begin_;
};

class SnapshotsTest : public ::testing::Test {
 protected:
  // More elements than an update computes on the caller's thread.
  static constexpr int64_t kMany = 1 << 19;

  ~SnapshotsTest() override { backend_.Release(); }

  void CreateNamespace(const std::string& name, NamespaceConfig config = {}) {
    CreateNamespaceRequest request = {.name_space = name};
    request.config = std::move(config);
    ASSERT_OK(store_.CreateNamespace(request));
  }
  void Init(const std::string& name_space, const std::string& key,
            int64_t num_elements = 4) {
    InitRequest request = {.name_space = name_space};
    request.entries.push_back({key, OnesOf(num_elements)});
    ASSERT_OK(InitNow(store_, std::move(request)));
  }
  void SetRule(const std::string& name_space, const std::string& rule,
               const std::string& pattern = "*") {
    SetRuleRequest request = {.name_space = name_space, .key_pattern = pattern};
    request.rule = *ParseRuleSpec(rule);
    ASSERT_OK(store_.SetRule(request));
  }
  // Does not wait for the answer.
  void BeginPush(PushRequest request) {
    store_.Push(std::move(request), {}, [](absl::StatusOr<PushReply>) {});
  }
  // The version that a first push makes of "k" in a store that was restored.
  static Version PushAfterRestore(const KeptSnapshot& snapshot) {
    ScriptedBackend backend;
    SteadyAlarms alarms;
    MemoryTensorStore store({}, &backend, &alarms);
    const auto restoration = store.StartRestoration(OnExisting::kFail);
    EXPECT_OK(restoration->Begin(snapshot.namespaces[0]));
    EXPECT_OK(restoration->Add(snapshot.keys));
    EXPECT_OK(restoration->Commit());
    return NextVersion(store);
  }
  static Version NextVersion(MemoryTensorStore& store) {
    return PushTo(store, "k").Wait().value().results[0].version;
  }
  static Answer<absl::StatusOr<PushReply>> PushTo(MemoryTensorStore& store,
                                                  const std::string& key,
                                                  Step step = 0,
                                                  const Worker* by = nullptr) {
    PushRequest request = PushOf("n", key);
    request.step = step;
    if (by != nullptr) request.worker = *by;
    const Answer<absl::StatusOr<PushReply>> answer;
    store.Push(std::move(request), {},
               [answer](absl::StatusOr<PushReply> reply) {
                 answer.Set(std::move(reply));
               });
    return answer;
  }
  void AwaitVersion(const std::string& name_space, const std::string& key,
                    Version version) {
    PullRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, version});
    const Answer<absl::StatusOr<PullReply>> answer;
    store_.Pull(std::move(request), {},
                [answer](absl::StatusOr<PullReply> reply) {
                  answer.Set(std::move(reply));
                });
    ASSERT_OK(answer.Wait());
  }
  static Tensor OnesOf(int64_t num_elements) {
    return *Tensor::Filled(DType::kF32, {num_elements}, 1);
  }
  static PushRequest PushOf(const std::string& name_space,
                            const std::string& key, int64_t num_elements = 4) {
    PushRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, false, OnesOf(num_elements)});
    return request;
  }
  static PushRequest SyncPushOf(uint32_t rank, Step step,
                                const std::string& key, int64_t num_elements) {
    PushRequest request = PushOf("s", key, num_elements);
    request.worker = Worker{rank, 0};
    request.step = step;
    return request;
  }

  ScriptedBackend backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 1 << 30}, &backend_, &alarms_};
};

// A contribution to an open round has the states of its key copied, but brings
// no update whose end the next cut would see. The copy is behind updates that
// are held.
TEST_F(SnapshotsTest, OneThatFailsWhileStatesAreCopiedDoesNotStopTheNext) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 2});
  SetRule("s", "adam", "k");
  Init("s", "k", kMany);
  BeginPush(SyncPushOf(0, 1, "k", kMany));
  BeginPush(SyncPushOf(1, 1, "k", kMany));
  AwaitVersion("s", "k", 2);
  std::vector<std::string> held;
  for (size_t i = 0; i < TaskPool::DefaultNumThreads(); ++i) {
    held.push_back(absl::StrCat("held", i));
    Init("s", held.back(), kMany);
  }
  backend_.Hold();
  for (const std::string& key : held) {
    BeginPush(SyncPushOf(0, 1, key, kMany));
    BeginPush(SyncPushOf(1, 1, key, kMany));
  }
  Notification is_begun;
  KeptSnapshot failing([&](const NamespaceSnapshot&) {
    BeginPush(SyncPushOf(0, 2, "k", kMany));
    is_begun.Notify();
    return absl::DataLossError("the disk is gone");
  });
  KeptSnapshot next;

  Background failed([&] { return store_.TakeSnapshot({"s"}, failing); });
  is_begun.WaitForNotification();
  Background taken([&] { return store_.TakeSnapshot({"s"}, next); });
  backend_.Release();

  EXPECT_THAT(failed.Result(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_OK(taken.Result());
  EXPECT_EQ(next.keys.size(), 1 + held.size());
}

// Keys that come from another server are in a namespace that is in use.
class RestoredStatesTest : public SnapshotsTest {
 protected:
  // Has a store take over two keys, whose momentum is 1, and calls `meanwhile`
  // with the first when that is there, and its momentum may not be.
  absl::Status Adopt(std::function<void(const std::string& key)> meanwhile) {
    CreateNamespace("n");
    SetRule("n", "sgd(learning_rate=1, momentum=0.5)");
    for (const char* const key : {"a", "b"}) {
      Init("n", key);
      EXPECT_OK(PushTo(store_, key).Wait());
    }
    KeptSnapshot snapshot;
    EXPECT_OK(store_.TakeSnapshot({"n"}, snapshot));
    first_ = snapshot.keys[0].key;
    meanwhile_ = std::move(meanwhile);
    const auto adoption = adopting_.StartAdoption({});
    EXPECT_OK(adoption->Begin(snapshot.namespaces[0]));
    AwaitFirst();
    // The snapshot keeps the states, so that they are copied.
    return adoption->Add(snapshot.keys);
  }

  ScriptedBackend adopting_backend_;
  // Takes keys one by one.
  MemoryTensorStore adopting_{{.max_entries = 1}, &adopting_backend_, &alarms_};

 private:
  void AwaitFirst() {
    adopting_backend_.WhenAllocating([this] {
      const bool is_there =
          adopting_.Stat({.name_space = "n", .keys = {first_}}).ok();
      is_there ? meanwhile_(first_) : AwaitFirst();
    });
  }

  std::string first_;
  std::function<void(const std::string& key)> meanwhile_;
};

TEST_F(RestoredStatesTest, UpdateWaitsForThem) {
  std::string key;
  std::optional<Answer<absl::StatusOr<PushReply>>> pushed;

  ASSERT_OK(Adopt([&](const std::string& first) {
    key = first;
    pushed = PushTo(adopting_, first);
  }));

  ASSERT_TRUE(pushed);
  ASSERT_OK(pushed->Wait());
  const Answer<absl::StatusOr<PullReply>> pulled;
  adopting_.Pull({.name_space = "n", .entries = {{key}}}, {},
                 [pulled](absl::StatusOr<PullReply> reply) {
                   pulled.Set(std::move(reply));
                 });
  ASSERT_OK_AND_ASSIGN(const PullReply reply, pulled.Wait());
  // 1 - 1 - (0.5 + 1).
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(-1.5));
}

TEST_F(RestoredStatesTest, AnotherRuleMayTakeTheirPlace) {
  ASSERT_OK(Adopt([this](const std::string&) {
    ASSERT_OK(adopting_.SetRule({.name_space = "n",
                                 .key_pattern = "*",
                                 .rule = *ParseRuleSpec("accumulate")}));
  }));

  ASSERT_OK(PushTo(adopting_, "a").Wait());
}

TEST_F(SnapshotsTest, WorkersThatNoGroupHasAreRefused) {
  const std::vector<uint32_t> wrong[] = {{kMaxWorkers}, {1, 0}, {0, 0}};
  for (const std::vector<uint32_t>& ranks : wrong) {
    NamespaceSnapshot snapshot = {.name = "restored"};
    for (const uint32_t rank : ranks) {
      snapshot.workers.push_back({.worker = {.rank = rank}, .step = 1});
    }
    const auto is_refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("expected a rank above"));

    EXPECT_THAT(store_.StartRestoration(OnExisting::kFail)->Begin(snapshot),
                is_refused);
    snapshot.name = "default";
    snapshot.config = store_.DescribeNamespace("")->config;
    EXPECT_THAT(store_.StartAdoption({})->Begin(snapshot), is_refused);
  }
}

TEST_F(SnapshotsTest, ARuleThatIsSetWhileItIsTakenIsNotInIt) {
  CreateNamespace("n");
  SetRule("n", "adam");
  Init("n", "idle");
  Init("n", "updating", kMany);
  BeginPush(PushOf("n", "idle"));
  AwaitVersion("n", "idle", 2);
  BeginPush(PushOf("n", "updating", kMany));
  AwaitVersion("n", "updating", 2);
  backend_.Hold();
  BeginPush(PushOf("n", "updating", kMany));
  backend_.WaitUntilHeld();
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    SetRule("n", "sgd");
    backend_.Release();
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  EXPECT_EQ(snapshot.namespaces[0].rules[0].rule.name, "adam");
  std::map<std::string, uint64_t> counts;
  for (const KeySnapshot& key : snapshot.keys) {
    counts[key.key] = key.update_count;
    EXPECT_EQ(key.states.size(), 2u) << key.key;
  }
  EXPECT_THAT(counts, ElementsAre(Pair("idle", 1), Pair("updating", 2)));
}

TEST_F(SnapshotsTest, EachRestoreMakesVersionsOfItsOwn) {
  CreateNamespace("n");
  Init("n", "k");
  KeptSnapshot snapshot;
  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  const Version first = PushAfterRestore(snapshot);
  const Version second = PushAfterRestore(snapshot);

  EXPECT_GT(first, snapshot.namespaces[0].max_version);
  EXPECT_GT(second, first);
}

TEST_F(SnapshotsTest, RestoreThatBeganFirstAndEndsLastMakesTheHigherVersions) {
  CreateNamespace("n");
  Init("n", "k");
  KeptSnapshot snapshot;
  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));
  const auto first = store_.StartRestoration(OnExisting::kReplace);
  ASSERT_OK(first->Begin(snapshot.namespaces[0]));
  ASSERT_OK(first->Add(snapshot.keys));
  const auto second = store_.StartRestoration(OnExisting::kReplace);
  ASSERT_OK(second->Begin(snapshot.namespaces[0]));
  ASSERT_OK(second->Add(snapshot.keys));
  ASSERT_OK(second->Commit());
  const Version before = NextVersion(store_);
  const uint64_t revision = store_.DescribeNamespace("n")->revision;

  ASSERT_OK(first->Commit());

  EXPECT_GT(NextVersion(store_), before);
  EXPECT_GT(store_.DescribeNamespace("n")->revision, revision);
}

TEST_F(RestoredStatesTest, KeysThatWereRestoredBeforeMakeVersionsAboveTheirs) {
  for (MemoryTensorStore* const store : {&store_, &adopting_}) {
    ASSERT_OK(store->CreateNamespace({.name_space = "n"}));
  }
  Init("n", "k");
  KeptSnapshot saved;
  ASSERT_OK(store_.TakeSnapshot({"n"}, saved));
  const auto takeover =
      store_.StartTakeover({.num_partitions = 1, .partitions = {0}});
  ASSERT_OK(takeover->Begin(saved.namespaces[0]));
  ASSERT_OK(takeover->Add(saved.keys));
  ASSERT_OK(takeover->Commit());
  KeptSnapshot moved;
  ASSERT_OK(store_.TakeSnapshot({"n"}, moved));

  const auto adoption = adopting_.StartAdoption({});
  ASSERT_OK(adoption->Begin(moved.namespaces[0]));
  ASSERT_OK(adoption->Add(moved.keys));

  ASSERT_OK_AND_ASSIGN(const PushReply reply, PushTo(adopting_, "k").Wait());
  EXPECT_GT(reply.results[0].version, moved.namespaces[0].max_version);
}

TEST_F(SnapshotsTest, OfCallsUnderWayOnlyContributionsAreNotInIt) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 2});
  SetRule("s", "adam");
  Init("s", "k");
  PushRequest push = SyncPushOf(0, 1, "k", 4);
  push.call_id = CallId{"pusher", 1};
  BeginPush(std::move(push));
  KeptSnapshot snapshot;
  backend_.WhenAllocating(
      [&] { EXPECT_OK(store_.TakeSnapshot({"s"}, snapshot)); });
  InitRequest init = {.name_space = "s", .call_id = CallId{"maker", 1}};
  init.entries.push_back({"new", OnesOf(4)});

  ASSERT_OK(InitNow(store_, std::move(init)));

  const std::vector<CallSnapshot>& calls = snapshot.namespaces[0].calls;
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].id.client_id, "maker");
  EXPECT_THAT(calls[0].answer->status(), HasReason(Reason::kOutcomeUnknown));
}

TEST_F(SnapshotsTest, ANamespaceThatIsDeletedBeforeItsTurnIsNotInIt) {
  for (const std::string name : {"a", "deleted", "replaced"}) {
    CreateNamespace(name);
  }
  KeptSnapshot snapshot([&](const NamespaceSnapshot& name_space) {
    if (name_space.name != "a") return absl::OkStatus();
    EXPECT_OK(store_.DeleteNamespace("deleted"));
    EXPECT_OK(store_.DeleteNamespace("replaced"));
    CreateNamespace("replaced");
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({}, snapshot));

  std::map<std::string, uint64_t> uids;
  for (const NamespaceSnapshot& each : snapshot.namespaces) {
    uids[each.name] = each.uid;
  }
  EXPECT_THAT(
      uids,
      ElementsAre(Pair("a", _), Pair("default", _),
                  Pair("replaced", store_.DescribeNamespace("replaced")->uid)));
}

// Of keys that are not in it, or not any more, it keeps nothing.
TEST_F(SnapshotsTest, KeysThatGoWhileItIsTakenGiveTheirMemoryBack) {
  CreateNamespace("n");
  Init("n", "a");
  Init("n", "replaced", kMany);
  std::vector<uint64_t> used;
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    for (int i = 0; i < 20; ++i) {
      Init("n", "short-lived", kMany);
      InitRequest again = {.name_space = "n"};
      again.on_existing = OnExisting::kReplace;
      again.entries.push_back({"replaced", OnesOf(kMany)});
      EXPECT_OK(InitNow(store_, std::move(again)));
      EXPECT_OK(store_.Delete({.name_space = "n", .keys = {"short-lived"}}));
      used.push_back(store_.used_bytes());
    }
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  EXPECT_THAT(used, Each(used.front()));
  std::vector<std::string> keys;
  for (const KeySnapshot& key : snapshot.keys) keys.push_back(key.key);
  EXPECT_THAT(keys, UnorderedElementsAre("a", "replaced"));
}

// Names before and behind those that the walk has come to.
TEST_F(SnapshotsTest, KeysThatComeAndGoBetweenItsTurnsAreNotInIt) {
  CreateNamespace("n");
  InitRequest many = {.name_space = "n"};
  for (int i = 0; i < 1000; ++i) {
    many.entries.push_back({absl::StrCat("k", 1000 + i), OnesOf(1)});
  }
  ASSERT_OK(InitNow(store_, std::move(many)));
  const uint64_t before = store_.used_bytes();
  int num_added = 0;
  KeptSnapshot snapshot;
  snapshot.on_add = [&] {
    if (++num_added % 100 != 0) return;
    Init("n", "a", kMany);
    Init("n", "z", kMany);
    EXPECT_OK(store_.Delete({.name_space = "n", .keys = {"a", "z"}}));
  };

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  EXPECT_EQ(snapshot.keys.size(), 1000u);
  snapshot.keys.clear();
  EXPECT_EQ(store_.used_bytes(), before);
}

// Its contribution was to a round that was open, and is not in the snapshot.
TEST_F(SnapshotsTest, WorkerThatLeavesBeforeItRepeatsAStepIsToldItAgain) {
  CreateNamespace("n", {.mode = Mode::kSync, .num_workers = 2});
  Init("n", "k");
  const JoinRequest join = {
      .name_space = "n", .worker_name = "a", .lease = absl::Seconds(10)};
  const Worker worker = store_.Join(join)->worker;
  ASSERT_OK(PushTo(store_, "k", /*step=*/1, &worker).Wait());
  KeptSnapshot snapshot;
  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));
  MemoryTensorStore restored({}, &backend_, &alarms_);
  const auto restoration = restored.StartRestoration(OnExisting::kFail);
  ASSERT_OK(restoration->Begin(snapshot.namespaces[0]));
  ASSERT_OK(restoration->Add(snapshot.keys));
  ASSERT_OK(restoration->Commit());
  const JoinReply first = restored.Join(join).value();

  ASSERT_OK(restored.Leave({.name_space = "n", .worker = first.worker}));

  EXPECT_EQ(restored.Join(join)->next_step, 1u);
}

// What is restored or moved has its memory from the budget.
class AllocateToRestoreTest : public SnapshotsTest {
 protected:
  static constexpr uint64_t kBudget = 8 << 20;

  AllocateToRestoreTest() {
    CreateNamespace("n");
    SetRule("n", "adam");
    Init("n", "k", kMany);
    const Answer<absl::StatusOr<PushReply>> answer;
    store_.Push(PushOf("n", "k", kMany), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(std::move(reply));
                });
    EXPECT_OK(answer.Wait());
    EXPECT_OK(store_.TakeSnapshot({"n"}, snapshot_));
  }
  // The key, in memory of the restoration.
  static absl::StatusOr<std::vector<KeySnapshot>> CopyOf(
      const KeySnapshot& key, Restoration& restoration) {
    KeySnapshot copy = key;
    const auto copy_of = [&](Tensor& tensor) -> absl::Status {
      absl::StatusOr<Tensor> made =
          restoration.Allocate(tensor.dtype(), tensor.shape());
      if (!made.ok()) return made.status();
      std::memcpy(made->mutable_data(), tensor.data(), tensor.size_bytes());
      tensor = *std::move(made);
      return absl::OkStatus();
    };
    absl::Status status = copy_of(copy.value);
    for (StateSnapshot& state : copy.states) {
      if (status.ok()) status = copy_of(state.tensor);
    }
    if (!status.ok()) return status;
    std::vector<KeySnapshot> keys;
    keys.push_back(std::move(copy));
    return keys;
  }

  KeptSnapshot snapshot_;
  ScriptedBackend restored_backend_;
  MemoryTensorStore restored_{
      {.budget_bytes = kBudget}, &restored_backend_, &alarms_};
};

TEST_F(AllocateToRestoreTest, IsCountedOnceFromTheStart) {
  const auto restoration = restored_.StartRestoration(OnExisting::kFail);
  ASSERT_OK(restoration->Begin(snapshot_.namespaces[0]));
  const uint64_t before = restored_.used_bytes();
  const uint64_t bytes = snapshot_.keys[0].size_bytes();
  EXPECT_EQ(bytes, 3 * kMany * sizeof(float));

  ASSERT_OK_AND_ASSIGN(std::vector<KeySnapshot> keys,
                       CopyOf(snapshot_.keys[0], *restoration));

  EXPECT_EQ(restored_.used_bytes(), before + bytes);
  ASSERT_OK(restoration->Add(std::move(keys)));
  EXPECT_GE(restored_.used_bytes(), before + bytes);
  EXPECT_LT(restored_.used_bytes(), before + bytes + 4096);
  ASSERT_OK(restoration->Commit());
  ASSERT_OK(restored_.DeleteNamespace("n"));
}

TEST_F(SnapshotsTest, NamespaceThatWasDeletedDoesNotComeBackByAMove) {
  CreateNamespace("n");
  Init("n", "k");
  KeptSnapshot snapshot;
  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));
  const auto adoption = store_.StartAdoption({.num_partitions = 1});

  ASSERT_OK(store_.DeleteNamespace("n"));

  EXPECT_THAT(adoption->Begin(snapshot.namespaces[0]),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("deleted here")));
  EXPECT_THAT(store_.StartAdoption({.num_partitions = 1})
                  ->Begin(snapshot.namespaces[0]),
              StatusIs(absl::StatusCode::kAborted))
      << "other servers may have it still";
  CreateNamespace("n");
  EXPECT_OK(adoption->Begin(snapshot.namespaces[0])) << "another is there";
}

TEST_F(SnapshotsTest, DeletesOfNoNamespaceDoNotLetADeletedOneComeBack) {
  CreateNamespace("n");
  KeptSnapshot snapshot;
  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));
  const auto adoption = store_.StartAdoption({.num_partitions = 1});
  ASSERT_OK(store_.DeleteNamespace("n"));

  EXPECT_THAT(store_.DeleteNamespace(std::string(1 << 20, 'n')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  for (size_t i = 0; i <= RecentDeletes::kMost; ++i) {
    EXPECT_THAT(store_.DeleteNamespace(absl::StrCat("none", i)),
                StatusIs(absl::StatusCode::kNotFound));
  }

  EXPECT_THAT(adoption->Begin(snapshot.namespaces[0]),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(SnapshotsTest, GroupWhoseWorkersAreAllLostDoesNotHoldUpAMove) {
  CreateNamespace("n", {.mode = Mode::kSync, .num_workers = 2});
  Init("n", "k");
  const auto join = [this](const std::string& name) {
    return store_.Join({.name_space = "n",
                        .worker_name = name,
                        .lease = absl::Seconds(10),
                        .rank = 0});
  };
  const auto lose = [this](const Worker& worker) {
    return store_.Leave({.name_space = "n", .worker = worker, .is_lost = true});
  };
  const Worker first = join("a")->worker;
  ASSERT_OK(PushTo(store_, "k", /*step=*/1, &first).Wait());
  ASSERT_OK(lose(first));
  // Has the step of the worker before it, and has not pushed itself.
  ASSERT_OK(lose(join("b")->worker));

  EXPECT_OK(store_.Fence({.num_partitions = 1, .partitions = {0}}, [] {
    return absl::DeadlineExceededError("a round is open");
  }));
}

TEST_F(AllocateToRestoreTest, IsGivenBackWhenItIsNotUsed) {
  const uint64_t before = restored_.used_bytes();
  {
    const auto restoration = restored_.StartRestoration(OnExisting::kFail);
    ASSERT_OK(restoration->Begin(snapshot_.namespaces[0]));
    ASSERT_OK(CopyOf(snapshot_.keys[0], *restoration));
  }

  EXPECT_EQ(restored_.used_bytes(), before);
}

TEST_F(AllocateToRestoreTest, IsRefusedWhereThereIsNoRoom) {
  const auto restoration = restored_.StartRestoration(OnExisting::kFail);
  ASSERT_OK(restoration->Begin(snapshot_.namespaces[0]));

  EXPECT_THAT(restoration->Allocate(DType::kF32, {kBudget / 2}),
              StatusIs(absl::StatusCode::kResourceExhausted));

  const auto adoption = restored_.StartAdoption({});
  ASSERT_OK(adoption->Begin(snapshot_.namespaces[0]));
  EXPECT_THAT(adoption->Allocate(DType::kF32, {kBudget / 2}),
              HasReason(Reason::kOverBudget));
}

}  // namespace
}  // namespace tensorkv
