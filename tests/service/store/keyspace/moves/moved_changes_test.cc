// What changes while a move sends keys, at the store that gets them.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/row_ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/snapshot.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/testing/background.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace moved_changes_test {

using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::SnapshotsTest;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Gives a Restoration what it gets at once, and remembers which keys.
class Delivery final : public SnapshotSink {
 public:
  explicit Delivery(Restoration* to) : to_(*to) {}

  absl::Status Begin(NamespaceSnapshot name_space) override {
    return to_.Begin(name_space);
  }
  absl::Status Add(KeySnapshot key) override {
    keys.push_back(key.key);
    std::vector<KeySnapshot> added;
    added.push_back(std::move(key));
    return to_.Add(std::move(added));
  }
  absl::Status End() override { return absl::OkStatus(); }
  void Paused(absl::Duration) override {}

  std::vector<std::string> keys;

 private:
  Restoration& to_;
};

std::string Text(const Tensor& tensor) {
  std::string text;
  for (const float each : tensor.elements<float>()) {
    absl::StrAppend(&text, each, ",");
  }
  return text;
}

// Returns all that a snapshot has of the keys, by name.
std::map<std::string, std::string> Texts(
    const std::vector<KeySnapshot>& snapshot) {
  std::map<std::string, std::string> texts;
  for (const KeySnapshot& key : snapshot) {
    std::string& text = texts[key.key];
    text = absl::StrCat("version ", key.version, " updates ", key.update_count,
                        " value ", Text(key.value), " unsaved ",
                        key.first_unsaved);
    for (const StateSnapshot& state : key.states) {
      absl::StrAppend(&text, " ", state.name, " ", Text(state.tensor));
    }
    for (const AppliedRound& round : key.rounds) {
      absl::StrAppend(&text, " round ", round.step, " ", round.version);
    }
  }
  return texts;
}

class MovedChangesTest : public SnapshotsTest {
 protected:
  MovedChangesTest() {
    CreateNamespace("n");
    SetRule("n", "sgd(learning_rate=1, momentum=0.5)");
    for (const char* const key : {"a", "b", "c"}) {
      Init("n", key);
      EXPECT_OK(PushTo(store_, key).Wait());
    }
  }

  absl::Status TakeChanges() {
    delivery_.keys.clear();
    return store_.TakeChanges(all_, delivery_);
  }
  absl::Status TakeLast() {
    delivery_.keys.clear();
    const absl::Status fenced =
        store_.Fence(all_, [] { return absl::CancelledError("it waits"); });
    return fenced.ok() ? store_.TakeSnapshotOfFenced(delivery_) : fenced;
  }
  // Both stores have the same of the namespace.
  void ExpectSame(const std::string& name_space) {
    testing::KeptSnapshot moved;
    EXPECT_OK(adoption_->Commit());
    EXPECT_OK(other_.TakeSnapshot({name_space}, moved));
    EXPECT_EQ(Texts(moved.keys), Texts(Taken(name_space).keys));
  }

  const PartitionSet all_ = {.num_partitions = 1, .partitions = {0}};
  ScriptedBackend other_backend_;
  MemoryTensorStore other_{
      {.budget_bytes = 1 << 30}, &other_backend_, &alarms_};
  const std::unique_ptr<Restoration> adoption_ = other_.StartAdoption(all_);
  Delivery delivery_{adoption_.get()};
};

// What calls do to "b", and which keys are sent again for it.
struct Change {
  const char* name;
  std::function<void(MemoryTensorStore& store)> make;
  std::vector<std::string> sent;
};

class EachChangeTest : public MovedChangesTest,
                       public ::testing::WithParamInterface<Change> {
 protected:
  std::vector<std::string> sent() {
    std::sort(delivery_.keys.begin(), delivery_.keys.end());
    return delivery_.keys;
  }
};

TEST_P(EachChangeTest, ArrivesWithTheNextStage) {
  ASSERT_OK(TakeChanges());
  GetParam().make(store_);
  ASSERT_OK(TakeChanges());
  EXPECT_EQ(sent(), GetParam().sent);
  ASSERT_OK(TakeLast());
  EXPECT_THAT(sent(), IsEmpty());

  ExpectSame("n");
}

TEST_P(EachChangeTest, ArrivesWithTheLastStage) {
  ASSERT_OK(TakeChanges());
  GetParam().make(store_);
  ASSERT_OK(TakeLast());
  EXPECT_EQ(sent(), GetParam().sent);

  ExpectSame("n");
}

void Delete(MemoryTensorStore& store) {
  EXPECT_OK(testing::MakeNow(store, testing::DeleteOf({"b"}, "n")));
}

void Create(MemoryTensorStore& store, const std::string& key,
            OnExisting on_existing = OnExisting::kFail) {
  InitRequest request = {.name_space = "n", .on_existing = on_existing};
  request.entries.push_back({key, *Tensor::Filled(DType::kF32, {6}, 7)});
  EXPECT_OK(testing::InitNow(store, std::move(request)));
}

void PushB(MemoryTensorStore& store) {
  PushRequest request = {.name_space = "n"};
  request.entries.push_back({"b", false, *Tensor::Filled(DType::kF32, {4}, 1)});
  const Answer<absl::StatusOr<PushReply>> answer;
  store.Push(std::move(request), {},
             [answer](absl::StatusOr<PushReply> reply) { answer.Set(reply); });
  EXPECT_OK(answer.Wait());
}

void PushRowsOfB(MemoryTensorStore& store) {
  PushRequest request = {.name_space = "n"};
  PushEntry entry = {"b", false, *Tensor::Filled(DType::kF32, {1}, 1)};
  const int64_t ids[] = {2};
  entry.rows = *RowIds::Create(*Tensor::CopyOf(DType::kI64, {1}, ids));
  request.entries.push_back(std::move(entry));
  const Answer<absl::StatusOr<PushReply>> answer;
  store.Push(std::move(request), {},
             [answer](absl::StatusOr<PushReply> reply) { answer.Set(reply); });
  EXPECT_OK(answer.Wait());
}

void SetMomentumOfB(MemoryTensorStore& store) {
  SetStateRequest request = {.name_space = "n"};
  request.entries.push_back(
      {"b", "momentum", *Tensor::Filled(DType::kF32, {4}, 9)});
  EXPECT_OK(testing::SetStateNow(store, std::move(request)));
}

void SetRuleTo(MemoryTensorStore& store, const std::string& rule) {
  EXPECT_OK(testing::MakeNow(store, testing::SetRuleOf(rule, "*", "n")));
}

// Under another rule all keys have other states, and are sent anew.
INSTANTIATE_TEST_SUITE_P(
    AllChanges, EachChangeTest,
    ::testing::Values(
        Change{"None", [](MemoryTensorStore&) {}, {}},
        Change{"Push", PushB, {"b"}}, Change{"PushRows", PushRowsOfB, {"b"}},
        Change{"SetState", SetMomentumOfB, {"b"}}, Change{"Delete", Delete, {}},
        Change{"Init",
               [](MemoryTensorStore& store) { Create(store, "d"); },
               {"d"}},
        Change{"Replace",
               [](MemoryTensorStore& store) {
                 Create(store, "b", OnExisting::kReplace);
               },
               {"b"}},
        Change{"DeleteAndInit",
               [](MemoryTensorStore& store) {
                 Delete(store);
                 Create(store, "b");
               },
               {"b"}},
        Change{"InitAndDelete",
               [](MemoryTensorStore& store) {
                 Delete(store);
                 Create(store, "b");
                 Delete(store);
               },
               {}},
        Change{"SetRule",
               [](MemoryTensorStore& store) {
                 SetRuleTo(store, "adam");
                 PushB(store);
               },
               {"a", "b", "c"}},
        Change{"SetMultipliers",
               [](MemoryTensorStore& store) {
                 EXPECT_OK(testing::MakeNow(
                     store, testing::SetMultipliersOf({.learning_rate = 2}, "b",
                                                      "n")));
                 PushB(store);
               },
               {"a", "b", "c"}},
        Change{"SetRuleBack",
               [](MemoryTensorStore& store) {
                 SetRuleTo(store, "adam");
                 SetRuleTo(store, "sgd(learning_rate=1, momentum=0.5)");
               },
               {"a", "b", "c"}}),
    [](const auto& change) { return change.param.name; });

TEST_F(MovedChangesTest, UpdateThatRunsIsSentOnceItHasEnded) {
  Init("n", "large", kMany);
  backend_.Hold();
  BeginPush(PushOf("n", "large", kMany));
  backend_.WaitUntilHeld();
  testing::Background taken([&] { return TakeChanges(); });
  backend_.Release();
  ASSERT_OK(taken.Result());

  ASSERT_OK(TakeLast());

  EXPECT_THAT(delivery_.keys, IsEmpty());
  ExpectSame("n");
}

// No update tells that the key has changed, and yet a contribution that is made
// again must be recognised.
TEST_F(MovedChangesTest, RoundThatAllHaveSkippedArrives) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 1});
  Init("s", "k");
  Init("s", "l");
  EXPECT_OK(PushTo(store_, SyncPushOf(0, 1, "k", 4)).Wait());
  ASSERT_OK(TakeChanges());
  PushRequest skip = SyncPushOf(0, 2, "k", 4);
  skip.entries[0].skip = true;
  skip.entries[0].tensor = {};
  EXPECT_OK(PushTo(store_, std::move(skip)).Wait());

  ASSERT_OK(TakeLast());

  EXPECT_THAT(delivery_.keys, ElementsAre("k"));
  ExpectSame("s");
}

// Its members have come and gone while keys were sent.
TEST_F(MovedChangesTest, GroupArrivesAsItIsInTheEnd) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 2});
  const auto join = [&](const std::string& name) {
    return WorkerOf(
        testing::MakeNow(store_, testing::JoinOf("s", name, absl::Minutes(5)))
            ->worker());
  };
  const Worker first = join("first");
  ASSERT_OK(TakeChanges());
  ASSERT_OK(testing::MakeNow(
      store_, testing::RequestOfMember<LeaveRequest>("s", first)));
  join("second");

  ASSERT_OK(TakeLast());
  ASSERT_OK(adoption_->Commit());

  const NamespaceStatus moved = testing::Described(other_, "s");
  ASSERT_EQ(moved.workers_size(), 2);
  EXPECT_TRUE(moved.workers(0).left());
  EXPECT_EQ(moved.workers(1).name(), "second");
}

TEST_F(MovedChangesTest, NamespaceThatIsDeletedEndsTheMove) {
  ASSERT_OK(TakeChanges());
  ASSERT_OK(testing::MakeNow(store_, testing::RemoveOf("n")));

  EXPECT_THAT(TakeLast(), StatusIs(absl::StatusCode::kAborted));

  store_.Unfence();
  EXPECT_OK(TakeChanges());
}

TEST_F(MovedChangesTest, NamespaceThatWasReplacedAtTheReceiverTakesNoChanges) {
  ASSERT_OK(TakeChanges());
  ASSERT_OK(testing::MakeNow(other_, testing::RemoveOf("n")));

  EXPECT_THAT(TakeChanges(), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(MovedChangesTest, NamesOfRemovedKeysCountUntilTheyHaveBeenSent) {
  const auto metadata = [this] {
    return testing::Described(store_, "n").memory().metadata();
  };
  const std::string long_name(1000, 'x');
  Init("n", long_name);
  ASSERT_OK(TakeChanges());
  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({long_name}, "n")));
  const uint64_t recorded = metadata();
  uint64_t while_sent = 0;
  testing::KeptSnapshot sink([&](const NamespaceSnapshot& begun) {
    if (begun.name == "n") while_sent = metadata();
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeChanges(all_, sink));

  EXPECT_EQ(while_sent, recorded);
  EXPECT_LE(metadata(), recorded - long_name.size());
}

// Without them the receiver would keep the key that is removed.
TEST_F(MovedChangesTest, MoveThatCannotRecordARemovalEndsWithoutHarm) {
  CreateNamespace("full", {.budget_bytes = 1 << 20});
  const std::string long_name(1000, 'x');
  Init("full", long_name);
  ASSERT_OK(TakeChanges());
  int num_keys = 0;
  for (int64_t size = 1 << 14; size > 0; size /= 16) {
    absl::Status status;
    while (status.ok()) {
      InitRequest request = {.name_space = "full"};
      request.entries.push_back({absl::StrCat("k", ++num_keys), OnesOf(size)});
      status = testing::InitNow(store_, std::move(request)).status();
    }
  }
  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({long_name}, "full")));

  EXPECT_THAT(TakeLast(), StatusIs(absl::StatusCode::kResourceExhausted));

  store_.Unfence();
  Replace("full", "k1", 1);
  EXPECT_OK(TakeChanges());
}

// A move that came to nothing leaves nothing behind that the next one builds
// on, nor that keys are removed for.
TEST_F(MovedChangesTest, NextMoveSendsAll) {
  ASSERT_OK(TakeChanges());
  const uint64_t used = store_.used_bytes();
  Init("n", "d");
  Delete(store_);
  store_.Unfence();

  ASSERT_OK(TakeChanges());

  EXPECT_THAT(delivery_.keys, ::testing::UnorderedElementsAre("a", "c", "d"));
  EXPECT_LE(store_.used_bytes(), used);
}

}  // namespace moved_changes_test
}  // namespace tensorkv
