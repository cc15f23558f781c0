// What becomes of snapshots that are restored, or moved to another server.

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/snapshot.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::KeptSnapshot;
using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::SnapshotsTest;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;

using RestorationsTest = SnapshotsTest;

absl::StatusOr<CreateSnapshotReply> CreateIn(
    MemoryTensorStore& store, const CreateSnapshotRequest& request) {
  return Await<CreateSnapshotReply>(
      [&](auto done) { store.CreateSnapshot(request, {}, std::move(done)); });
}

// Keys that come from another server are in a namespace that is in use.
class RestoredStatesTest : public SnapshotsTest {
 protected:
  // Has a store take over two keys, whose momentum is 1, and calls `meanwhile`
  // with the first when that is there, and its momentum is about to be copied.
  absl::Status Adopt(std::function<void(const std::string& key)> meanwhile) {
    CreateNamespace("n");
    SetRule("n", "sgd(learning_rate=1, momentum=0.5)");
    for (const char* const key : {"a", "b"}) {
      Init("n", key);
      EXPECT_OK(PushTo(store_, key).Wait());
    }
    const KeptSnapshot snapshot = Taken("n");
    const auto adoption = adopting_.StartAdoption({});
    EXPECT_OK(adoption->Begin(snapshot.namespaces[0]));
    adopting_backend_.WhenUploading(
        [meanwhile = std::move(meanwhile), first = snapshot.keys[0].key] {
          meanwhile(first);
        });
    // The snapshot keeps the states, so that they are copied.
    return adoption->Add(snapshot.keys);
  }

  ScriptedBackend adopting_backend_;
  // Takes keys one by one.
  MemoryTensorStore adopting_{{.max_entries = 1}, &adopting_backend_, &alarms_};
};

TEST_F(RestoredStatesTest, UpdateWaitsForThem) {
  std::string key;
  std::optional<Answer<absl::StatusOr<PushReply>>> pushed;

  ASSERT_OK(Adopt([&](const std::string& first) {
    key = first;
    pushed = PushTo(adopting_, first);
    EXPECT_FALSE(pushed->HasArrived());
  }));

  ASSERT_TRUE(pushed);
  ASSERT_OK(pushed->Wait());
  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      PullOf(adopting_, {.name_space = "n", .entries = {{key}}}));
  // 1 - 1 - (0.5 + 1).
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(-1.5));
}

TEST_F(RestoredStatesTest, AnotherRuleMayTakeTheirPlace) {
  ASSERT_OK(Adopt([this](const std::string&) {
    ASSERT_OK(testing::MakeNow(adopting_,
                               testing::SetRuleOf("accumulate", "*", "n")));
  }));

  ASSERT_OK(PushTo(adopting_, "a").Wait());
}

TEST_F(RestorationsTest, NumbersOfSeriesGoOn) {
  CreateNamespace("n");
  Init("n", "k");
  CreateSnapshotRequest create;
  create.set_namespace_("n");
  create.set_series("s");
  create.set_number(5);
  ASSERT_OK(CreateIn(store_, create));
  const KeptSnapshot snapshot = Taken("n");

  const auto restoration = store_.StartRestoration(OnExisting::kReplace);
  ASSERT_OK(restoration->Begin(snapshot.namespaces[0]));
  ASSERT_OK(restoration->Commit());
  // A server that takes over another one's keys does the same.
  ScriptedBackend backend;
  MemoryTensorStore adopting({}, &backend, &alarms_);
  const auto adoption = adopting.StartAdoption({});
  ASSERT_OK(adoption->Begin(snapshot.namespaces[0]));
  ASSERT_OK(adoption->Commit());

  for (MemoryTensorStore* const store : {&store_, &adopting}) {
    EXPECT_THAT(CreateIn(*store, create),
                HasReason(Reason::kSnapshotNumberPassed));
    CreateSnapshotRequest next = create;
    next.clear_number();
    ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply reply,
                         CreateIn(*store, next));
    EXPECT_EQ(reply.number(), 6);
  }
}

TEST_F(RestorationsTest, EachRestoreMakesVersionsOfItsOwn) {
  CreateNamespace("n");
  Init("n", "k");
  const KeptSnapshot snapshot = Taken("n");

  const Version first = PushAfterRestore(snapshot);
  const Version second = PushAfterRestore(snapshot);

  EXPECT_GT(first, snapshot.namespaces[0].max_version);
  EXPECT_GT(second, first);
}

TEST_F(RestorationsTest,
       RestoreThatBeganFirstAndEndsLastMakesTheHigherVersions) {
  CreateNamespace("n");
  Init("n", "k");
  const KeptSnapshot snapshot = Taken("n");
  const auto first = store_.StartRestoration(OnExisting::kReplace);
  Fill(*first, snapshot);
  const auto second = store_.StartRestoration(OnExisting::kReplace);
  Fill(*second, snapshot);
  ASSERT_OK(second->Commit());
  const Version before = NextVersion(store_);
  const uint64_t revision = testing::Described(store_, "n").revision();

  ASSERT_OK(first->Commit());

  EXPECT_GT(NextVersion(store_), before);
  EXPECT_GT(testing::Described(store_, "n").revision(), revision);
}

TEST_F(RestoredStatesTest, KeysThatWereRestoredBeforeMakeVersionsAboveTheirs) {
  for (MemoryTensorStore* const store : {&store_, &adopting_}) {
    ASSERT_OK(testing::MakeNow(
        *store, testing::CreateOf("n", {}, OnExisting::kFail, /*uid=*/7)));
  }
  Init("n", "k");
  const KeptSnapshot saved = Taken("n");
  const auto takeover =
      store_.StartTakeover({.num_partitions = 1, .partitions = {0}});
  Fill(*takeover, saved);
  ASSERT_OK(takeover->Commit());
  const KeptSnapshot moved = Taken("n");

  const auto adoption = adopting_.StartAdoption({});
  Fill(*adoption, moved);
  ASSERT_OK(adoption->Commit());

  ASSERT_OK_AND_ASSIGN(const PushReply reply, PushTo(adopting_, "k").Wait());
  EXPECT_GT(reply.results[0].version, moved.namespaces[0].max_version);
}

// Its contribution was to a round that was open, and is not in the snapshot.
TEST_F(RestorationsTest, WorkerThatLeavesBeforeItRepeatsAStepIsToldItAgain) {
  CreateNamespace("n", {.mode = Mode::kSync, .num_workers = 2});
  Init("n", "k");
  const JoinRequest join = testing::JoinOf("n", "a", absl::Seconds(10));
  const Worker worker = WorkerOf(testing::MakeNow(store_, join)->worker());
  ASSERT_OK(PushTo(store_, "k", /*step=*/1, &worker).Wait());
  const KeptSnapshot snapshot = Taken("n");
  MemoryTensorStore restored({}, &backend_, &alarms_);
  const auto restoration = restored.StartRestoration(OnExisting::kFail);
  Fill(*restoration, snapshot);
  ASSERT_OK(restoration->Commit());
  const Worker first = WorkerOf(testing::MakeNow(restored, join)->worker());

  ASSERT_OK(testing::MakeNow(
      restored, testing::RequestOfMember<LeaveRequest>("n", first)));

  EXPECT_EQ(testing::MakeNow(restored, join)->next_step(), 1u);
}

TEST_F(RestorationsTest, QuorumThatStillCountsForSomeStepsComesBack) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 3, .quorum = 2});
  Init("s", "k");
  BeginPush(SyncPushOf(/*rank=*/0, /*step=*/1, "k", 4));
  ASSERT_OK(testing::MakeNow(store_, testing::UpdateOf("s", {}, {"quorum"})));

  const KeptSnapshot snapshot = Taken("s");
  ScriptedBackend backend;
  MemoryTensorStore restored({}, &backend, &alarms_);
  const auto restoration = restored.StartRestoration(OnExisting::kFail);
  Fill(*restoration, snapshot);
  ASSERT_OK(restoration->Commit());
  KeptSnapshot again;
  ASSERT_OK(restored.TakeSnapshot({"s"}, again));

  for (const KeptSnapshot* each : {&snapshot, &std::as_const(again)}) {
    const NamespaceSnapshot& name_space = each->namespaces[0];
    EXPECT_EQ(name_space.config.quorum, 0u);
    EXPECT_THAT(name_space.former_quorums, ElementsAre(FormerQuorum{1, 2}));
  }
}

TEST_F(RestorationsTest, BudgetThatWasLoweredBelowUseIsRestored) {
  CreateNamespace("n");
  Init("n", "k", kMany);
  ASSERT_OK(testing::MakeNow(
      store_,
      testing::UpdateOf("n", {.budget_bytes = 4096}, {"budget_bytes"})));
  const KeptSnapshot snapshot = Taken("n");
  for (const bool is_lost : {false, true}) {
    ScriptedBackend backend;
    MemoryTensorStore restored({}, &backend, &alarms_);
    {
      const auto restoration =
          is_lost
              ? restored.StartTakeover({.num_partitions = 1, .partitions = {0}})
              : restored.StartRestoration(OnExisting::kFail);
      Fill(*restoration, snapshot);
      ASSERT_OK(restoration->Commit());
    }
    restored.Own({.num_partitions = 1, .partitions = {0}});

    EXPECT_EQ(testing::Described(restored, "n").config().budget_bytes(), 4096u);
    InitRequest more = {.name_space = "n"};
    more.entries.push_back({"more", OnesOf(4)});
    EXPECT_THAT(testing::InitNow(restored, std::move(more)).status(),
                HasReason(Reason::kOverBudget));
  }
}

// What is restored or moved has its memory from the budget.
class AllocateToRestoreTest : public SnapshotsTest {
 protected:
  static constexpr uint64_t kBudget = 8 << 20;

  AllocateToRestoreTest() {
    CreateNamespace("n");
    SetRule("n", "adam");
    Init("n", "k", kMany);
    EXPECT_OK(PushTo(store_, PushOf("n", "k", kMany)).Wait());
    snapshot_ = Taken("n");
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
  ASSERT_OK(testing::MakeNow(restored_, testing::RemoveOf("n")));
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
