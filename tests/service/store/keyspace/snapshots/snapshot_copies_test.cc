// What is kept for snapshots of keys that change, and for how long.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "contract/messages.h"
#include "contract/reason.h"
#include "contract/row_ids.h"
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
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::KeptSnapshot;
using ::tensorkv::testing::StatusIs;
using ::testing::SizeIs;

using SnapshotCopiesTest = testing::SnapshotsTest;

// Its copy waits when all keys are taken, and the snapshot needs no more.
TEST_F(SnapshotCopiesTest, ARuleThatIsSetAfterTheWalkIsNotInIt) {
  CreateNamespace("n");
  SetRule("n", "adam");
  Init("n", "idle");
  Init("n", "updating", kMany);
  BeginPush(PushOf("n", "updating", kMany));
  AwaitVersion("n", "updating", 2);
  backend_.Hold();
  BeginPush(PushOf("n", "updating", kMany));
  backend_.WaitUntilHeld();
  KeptSnapshot snapshot;
  snapshot.on_add = [&] {
    if (snapshot.keys.size() > 1) return;
    SetRule("n", "sgd");
    backend_.Release();
  };

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys, SizeIs(2));
  EXPECT_EQ(snapshot.keys[1].key, "updating");
  EXPECT_EQ(snapshot.keys[1].states.size(), 2u);
  EXPECT_EQ(snapshot.keys[1].update_count, 2u);
}

// So many that a change would not ask each of them.
TEST_F(SnapshotCopiesTest, ThoseThatHaveTakenAllKeysHaveNothingKept) {
  CreateNamespace("n");
  SetRule("n", "adam");
  Init("n", "k", kMany);
  BeginPush(PushOf("n", "k", kMany));
  AwaitVersion("n", "k", 2);
  const uint64_t before = store_.used_bytes();
  std::function<void(int)> take = [&](int num_open) {
    if (num_open == 6) {
      EXPECT_OK(PushTo(store_, PushOf("n", "k", kMany)).Wait().status());
      return;
    }
    KeptSnapshot snapshot;
    snapshot.on_add = [&] {
      snapshot.keys.clear();
      take(num_open + 1);
    };
    EXPECT_OK(store_.TakeSnapshot({"n"}, snapshot));
    EXPECT_EQ(store_.used_bytes(), before) << num_open;
  };

  take(0);
}

TEST_F(SnapshotCopiesTest, ContributionsThatWaitInBoundedModeAreNotInIt) {
  CreateNamespace("n",
                  {.mode = Mode::kBounded, .num_workers = 1, .staleness = 1});
  Init("n", "k", kMany);
  const auto push = [this](Step step) {
    PushRequest request = PushOf("n", "k", kMany);
    request.worker = Worker();
    request.step = step;
    BeginPush(std::move(request));
  };
  backend_.Hold();
  push(1);
  backend_.WaitUntilHeld();
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    push(2);
    push(3);
    backend_.Release();
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys[0].contributions, SizeIs(1));
  EXPECT_EQ(snapshot.keys[0].contributions[0].step, 1u);
  EXPECT_EQ(snapshot.keys[0].version, 2u);
}

// The copy of the one runs together with the update of the other.
TEST_F(SnapshotCopiesTest, CopyDoesNotFailWithAnUpdateOfAnotherKey) {
  CreateNamespace("n");
  SetRule("n", "adam", "k");
  Init("n", "k");
  Init("n", "other");
  ASSERT_OK(PushTo(store_, "k").Wait().status());
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    PushRequest both = PushOf("n", "k");
    both.entries.push_back({"other", false, OnesOf(4)});
    backend_.FailApply(absl::InternalError("it fails"));
    EXPECT_THAT(PushTo(store_, std::move(both)).Wait(),
                StatusIs(absl::StatusCode::kInternal));
    backend_.FailApply(absl::OkStatus());
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys, SizeIs(2));
  for (const KeySnapshot& key : snapshot.keys) {
    EXPECT_EQ(key.states.size(), key.key == "k" ? 2u : 0u) << key.key;
  }
}

// The bytes of a tensor, and what all else of a few keys takes at most.
constexpr int64_t kElements = 1 << 16;
constexpr uint64_t kTensorBytes = kElements * sizeof(float);
constexpr uint64_t kOtherBytes = 64 << 10;

// The budget has room for what one push takes, and for nothing of snapshots.
class FullBudgetTest : public SnapshotCopiesTest,
                       public ::testing::WithParamInterface<const char*> {
 protected:
  FullBudgetTest() {
    NamespaceConfig config;
    config.budget_bytes = BudgetBytes();
    CreateNamespace("n", config);
    SetRule("n", GetParam());
    for (const std::string& key : keys_) {
      Init("n", key, kElements);
      EXPECT_OK(PushTo(store_, PushOf("n", key, kElements)).Wait().status());
    }
  }
  // Of values, states, and what a push brings and makes.
  uint64_t BudgetBytes() const {
    const uint64_t per_key = GetParam() == std::string("adam") ? 3 : 1;
    return (keys_.size() * per_key + 2) * kTensorBytes + kOtherBytes;
  }
  uint64_t Retained() {
    return testing::Described(store_, "n").memory().retained();
  }

  const std::vector<std::string> keys_ = {"a", "b", "c", "d", "e"};
};

TEST_P(FullBudgetTest, TakesPushesAllTheTime) {
  const v1::MemoryUse before = testing::Described(store_, "n").memory();
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    for (int i = 0; i < 2; ++i) {
      for (const std::string& key : keys_) {
        EXPECT_OK(PushTo(store_, PushOf("n", key, kElements)).Wait().status());
      }
    }
    EXPECT_GE(Retained(), before.values() + before.state());
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys, SizeIs(keys_.size()));
  for (const KeySnapshot& key : snapshot.keys) EXPECT_EQ(key.version, 2u);
  const v1::MemoryUse after = testing::Described(store_, "n").memory();
  EXPECT_EQ(after.values(), before.values());
  EXPECT_EQ(after.state(), before.state());
  snapshot.keys.clear();
  EXPECT_EQ(Retained(), 0u);
}

// What the reader has in its hands is no more counted than the rest.
TEST_P(FullBudgetTest, TakesPushesOfKeysThatAreBeingRead) {
  KeptSnapshot snapshot;
  snapshot.on_add = [&] {
    for (const std::string& key : keys_) {
      EXPECT_OK(PushTo(store_, PushOf("n", key, kElements)).Wait().status());
    }
  };

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  for (const KeySnapshot& key : snapshot.keys) EXPECT_EQ(key.version, 2u);
  snapshot.keys.clear();
  EXPECT_EQ(Retained(), 0u);
}

TEST_P(FullBudgetTest, HasRoomForKeysInThePlaceOfThoseThatWereDeleted) {
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    const uint64_t used = store_.used_bytes();
    for (int i = 0; i < 20; ++i) {
      EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf(keys_, "n")));
      for (const std::string& key : keys_) Init("n", key, kElements);
      EXPECT_LE(store_.used_bytes(), used) << i;
    }
    EXPECT_LE(Retained(), keys_.size() * 3 * kTensorBytes + kOtherBytes);
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys, SizeIs(keys_.size()));
  for (const KeySnapshot& key : snapshot.keys) EXPECT_EQ(key.version, 2u);
  snapshot.keys.clear();
  EXPECT_EQ(Retained(), 0u);
}

// The server has no room either.
TEST_P(FullBudgetTest, SnapshotThatNeedsTooMuchFailsAndNoPushDoes) {
  MemoryTensorStore store(
      {.budget_bytes = BudgetBytes(), .max_retained_bytes = kTensorBytes},
      &backend_, &alarms_);
  const auto push = [&] {
    for (const std::string& key : keys_) {
      EXPECT_OK(
          PushTo(store, PushOf("default", key, kElements)).Wait().status());
    }
  };
  ASSERT_OK(
      testing::MakeNow(store, testing::SetRuleOf(GetParam(), "*", "default")));
  for (const std::string& key : keys_) {
    InitRequest request = {.name_space = "default"};
    request.entries.push_back({key, OnesOf(kElements)});
    ASSERT_OK(testing::InitNow(store, std::move(request)));
  }
  push();
  KeptSnapshot failing([&](const NamespaceSnapshot&) {
    push();
    EXPECT_EQ(testing::Described(store).memory().retained(), 0u)
        << "nothing waits for the reader";
    return absl::OkStatus();
  });

  EXPECT_THAT(store.TakeSnapshot({"default"}, failing),
              testing::HasReason(Reason::kOverBudget));

  failing.keys.clear();
  EXPECT_EQ(testing::Described(store).memory().retained(), 0u);
  push();
}

INSTANTIATE_TEST_SUITE_P(Rules, FullBudgetTest,
                         ::testing::Values("assign", "sgd", "adam"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_F(SnapshotCopiesTest, RowsNeedNoRoomForWhatSnapshotsTake) {
  NamespaceConfig config;
  config.budget_bytes = 2 * kTensorBytes + kOtherBytes;
  CreateNamespace("n", config);
  SetRule("n", "sgd");
  PushRequest rows = {.name_space = "n"};
  for (const std::string key : {"a", "b"}) {
    Init("n", key, kElements);
    rows.entries.push_back(
        {.key = key,
         .tensor = OnesOf(1),
         .rows = *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 0))});
  }
  const uint64_t before = testing::Described(store_, "n").memory().values();
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    return PushTo(store_, rows).Wait().status();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys, SizeIs(2));
  for (const KeySnapshot& key : snapshot.keys) EXPECT_EQ(key.version, 1u);
  for (const KeySnapshot& key : Taken("n").keys) EXPECT_EQ(key.version, 2u);
  const v1::MemoryUse after = testing::Described(store_, "n").memory();
  EXPECT_EQ(after.values(), before);
  EXPECT_EQ(after.retained(), 2 * kTensorBytes) << "the snapshot's";
}

// Each of them is within the bound.
TEST_F(SnapshotCopiesTest, RowsOfManyKeysTakeNoMoreThanSnapshotsMayHave) {
  constexpr int kNumKeys = 8;
  MemoryTensorStore store(
      {.budget_bytes = (kNumKeys + 2) * kTensorBytes + kOtherBytes,
       .max_retained_bytes = 2 * kTensorBytes},
      &backend_, &alarms_);
  ASSERT_OK(testing::MakeNow(store, testing::SetRuleOf("sgd", "*", "default")));
  PushRequest rows = {.name_space = "default"};
  for (int i = 0; i < kNumKeys; ++i) {
    const std::string key = std::to_string(i);
    InitRequest request = {.name_space = "default"};
    request.entries.push_back({key, OnesOf(kElements)});
    ASSERT_OK(testing::InitNow(store, std::move(request)));
    rows.entries.push_back(
        {.key = key,
         .tensor = OnesOf(1),
         .rows = *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 0))});
  }
  KeptSnapshot failing([&](const NamespaceSnapshot&) {
    EXPECT_OK(PushTo(store, rows).Wait().status());
    EXPECT_LE(testing::Described(store).memory().retained(),
              4 * kTensorBytes + kOtherBytes);
    return absl::OkStatus();
  });

  EXPECT_THAT(store.TakeSnapshot({"default"}, failing),
              testing::HasReason(Reason::kOverBudget));
}

// Some had the value, but have ended.
TEST_F(SnapshotCopiesTest, NothingIsRetainedForThoseThatHaveEnded) {
  CreateNamespace("n");
  SetRule("n", "sgd");
  PushRequest rows = {.name_space = "n"};
  for (const std::string key : {"rows", "whole"}) Init("n", key, kElements);
  rows.entries.push_back(
      {.key = "rows",
       .tensor = OnesOf(1),
       .rows = *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 0))});
  EXPECT_THAT(Taken("n").keys, SizeIs(2));
  const absl::StatusOr<PullReply> read =
      PullOf(store_, {.name_space = "n", .entries = {{"rows"}, {"whole"}}});
  ASSERT_OK(read.status());

  ASSERT_OK(PushTo(store_, std::move(rows)).Wait().status());
  ASSERT_OK(PushTo(store_, PushOf("n", "whole", kElements)).Wait().status());

  EXPECT_EQ(testing::Described(store_, "n").memory().retained(), 0u);
}

// Nobody writes the states again.
TEST_F(SnapshotCopiesTest, KeyThatIsRemovedNeedsNoRoomForItsStates) {
  constexpr int64_t kElements = 1 << 16;
  NamespaceConfig config;
  // Two values, the states of one of them, and one tensor more.
  config.budget_bytes = 11 * kElements * sizeof(float) / 2;
  CreateNamespace("n", config);
  SetRule("n", "adam", "k");
  Init("n", "k", kElements);
  ASSERT_OK(PushTo(store_, PushOf("n", "k", kElements)).Wait().status());
  Init("n", "other", kElements);
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    return testing::MakeNow(store_, testing::DeleteOf({"k"}, "n")).status();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys, SizeIs(2));
  EXPECT_EQ(snapshot.keys[0].key, "k");
  EXPECT_EQ(snapshot.keys[0].version, 2u);
  EXPECT_THAT(snapshot.keys[0].states, SizeIs(2));
}

}  // namespace
}  // namespace tensorkv
