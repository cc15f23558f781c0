// What readers who ask for changes cost others.

#include "service/store/keyspace/pull/changes_reply.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/task_pool.h"
#include "contract/snapshot_references.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Full;
using testing::StatusIs;

// Keeps the tasks of each owner until they are told to run.
class TasksByOwner final : public TaskRunner {
 public:
  void Stop() override { RunAll(); }
  bool Submit(absl::string_view owner, Task&& task) override {
    tasks_[std::string(owner)].push_back(std::move(task));
    return true;
  }
  size_t num_of(const std::string& owner) const {
    const auto it = tasks_.find(owner);
    return it == tasks_.end() ? 0 : it->second.size();
  }
  size_t num_tasks() const {
    size_t num_tasks = 0;
    for (const auto& [owner, tasks] : tasks_) num_tasks += tasks.size();
    return num_tasks;
  }
  void RunAll() {
    while (num_tasks() > 0) {
      for (auto& [owner, tasks] : std::exchange(tasks_, {})) {
        for (Task& task : tasks) std::move(task)();
      }
    }
  }

 private:
  std::map<std::string, std::deque<Task>> tasks_;
};

// Where the answer of a pull arrives. Outlives the call.
struct Pulled {
  std::optional<absl::StatusOr<PullReply>> reply;

  bool has_ended() const { return reply.has_value(); }
  const Value& value(size_t index = 0) const {
    return reply->value().values[index];
  }
  bool is_delta(size_t index = 0) const {
    return value(index).change && value(index).change->delta.has_value();
  }
};

const std::string kPushes = "default";
const std::string kDeltas = "\1deltas";
constexpr int64_t kDeltaElements = 16 << 10;

class ChangesReplyTest : public ::testing::Test {
 protected:
  explicit ChangesReplyTest(MemoryTensorStoreOptions options = {
                                .budget_bytes = 1 << 26,
                                .max_delta_bytes = 1 << 24}) {
    options.pool = tasks_;
    store_.emplace(options, &backend_, &alarms_);
  }

  // Returns 1s, every `distance` elements of which have `value`.
  static Tensor Changed(float value, int64_t distance = 1000,
                        int64_t num_elements = kDeltaElements) {
    Tensor tensor = Full({num_elements}, 1);
    for (int64_t i = 0; i < num_elements; i += distance) {
      tensor.mutable_elements<float>()[i] = value;
    }
    return tensor;
  }
  static PullChanges Taking(std::vector<v1::DeltaEncoding> encodings) {
    PullChanges changes;
    for (const auto encoding : encodings) changes.add_encodings(encoding);
    return changes;
  }
  static PullRequest PullOf(int num_keys) {
    PullRequest pull;
    pull.changes = Taking({v1::DELTA_ENCODING_SPARSE});
    for (int i = 0; i < num_keys; ++i) {
      pull.entries.push_back({absl::StrCat("k", i)});
    }
    return pull;
  }

  // Make a call to its end.
  template <typename Reply, typename Start>
  absl::StatusOr<Reply> Run(Start start) {
    std::optional<absl::StatusOr<Reply>> answer;
    start([&](absl::StatusOr<Reply> reply) { answer = std::move(reply); });
    tasks_->RunAll();
    return *std::move(answer);
  }
  absl::Status Init(const std::string& key, Tensor tensor) {
    return Run<InitReply>([&](auto done) {
             store_->Init({.entries = {{key, std::move(tensor)}}}, {}, done);
           })
        .status();
  }
  absl::Status Push(const std::string& key, Tensor tensor) {
    return Run<PushReply>([&](auto done) {
             store_->Push({.entries = {{.key = key, .tensor = tensor}}}, {},
                          done);
           })
        .status();
  }
  absl::Status CreateSnapshot() {
    CreateSnapshotRequest request;
    request.set_series("s");
    return Run<CreateSnapshotReply>(
               [&](auto done) { store_->CreateSnapshot(request, {}, done); })
        .status();
  }
  std::unique_ptr<Pulled> Start(const PullRequest& pull,
                                CallContext context = {}) {
    auto pulled = std::make_unique<Pulled>();
    store_->Pull(pull, std::move(context),
                 [pulled = pulled.get()](absl::StatusOr<PullReply> reply) {
                   pulled->reply = std::move(reply);
                 });
    return pulled;
  }
  std::unique_ptr<Pulled> Pull(const PullRequest& pull) {
    auto pulled = Start(pull);
    tasks_->RunAll();
    return pulled;
  }
  // Has the pull show the values that are there now.
  void Hold(PullRequest& pull) {
    const auto pulled = Pull(pull);
    ASSERT_OK(pulled->reply->status());
    for (size_t i = 0; i < pull.entries.size(); ++i) {
      pull.entries[i].held = pulled->value(i).change->token;
    }
  }
  // Makes keys that have changed since a snapshot, and returns the pull of
  // those by somebody who holds what that has.
  PullRequest PullOfChanged(int num_keys,
                            int64_t num_elements = kDeltaElements) {
    PullRequest pull = PullOf(num_keys);
    for (const PullEntry& entry : pull.entries) {
      EXPECT_OK(Init(entry.key, Changed(2, 1000, num_elements)));
    }
    EXPECT_OK(CreateSnapshot());
    Hold(pull);
    for (const PullEntry& entry : pull.entries) {
      EXPECT_OK(Push(entry.key, Changed(3, 1000, num_elements)));
    }
    return pull;
  }
  NamespaceSummary Summary() { return store_->Summaries().front(); }
  uint64_t DeltaBytes() { return store_->budgets().deltas()->used_bytes(); }
  void Advance(absl::Duration by) {
    alarms_.Advance(by);
    tasks_->RunAll();
  }

  const std::shared_ptr<TasksByOwner> tasks_ = std::make_shared<TasksByOwner>();
  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  std::optional<MemoryTensorStore> store_;
};

TEST_F(ChangesReplyTest, ReadersStandInNoPushsWayAndTakeNoneOfItsMemory) {
  std::vector<PullRequest> pulls = {PullOfChanged(100)};
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    PullRequest& pull = pulls.emplace_back(pulls.front());
    pull.dtype = dtype;
    pull.at = SnapshotOf("s", 1);
    Hold(pull);
    pull.at.reset();
  }
  const MemoryUse before = Summary().memory;
  const uint64_t used_before = store_->used_bytes();

  std::vector<std::unique_ptr<Pulled>> readers;
  for (const auto& encodings :
       {Taking({v1::DELTA_ENCODING_SPARSE}),
        Taking({v1::DELTA_ENCODING_XOR_ZSTD}),
        Taking({v1::DELTA_ENCODING_SPARSE, v1::DELTA_ENCODING_XOR_ZSTD})}) {
    for (PullRequest& pull : pulls) {
      pull.changes = encodings;
      readers.push_back(Start(pull));
    }
  }

  EXPECT_EQ(tasks_->num_of(kPushes), 0);
  EXPECT_LE(tasks_->num_tasks(), 4);
  EXPECT_EQ(store_->used_bytes(), used_before);
  EXPECT_EQ(Summary().memory.values, before.values);
  EXPECT_EQ(Summary().memory.metadata, before.metadata);
  EXPECT_EQ(Summary().memory.retained, before.retained);
  tasks_->RunAll();
  for (const auto& reader : readers) {
    ASSERT_TRUE(reader->has_ended());
    EXPECT_TRUE(reader->is_delta());
  }
  EXPECT_EQ(store_->used_bytes(), used_before);
  EXPECT_EQ(Summary().memory.retained, before.retained);
}

TEST_F(ChangesReplyTest, ConversionsOfPullsStandInNoPushsWay) {
  ASSERT_OK(Init("k", Full({1 << 20}, 1)));

  const auto pulled = Start({.dtype = DType::kBF16, .entries = {{"k"}}});

  EXPECT_FALSE(pulled->has_ended());
  EXPECT_EQ(tasks_->num_of(kPushes), 0);
  tasks_->RunAll();
  EXPECT_OK(pulled->reply->status());
}

TEST_F(ChangesReplyTest, TokensAreShownToAskForChanges) {
  PullRequest pull = PullOfChanged(1);
  pull.changes.reset();

  EXPECT_THAT(*Start(pull)->reply,
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ChangesReplyTest, EachDeltaIsEncodedOnce) {
  constexpr int kNumKeys = 3;
  const PullRequest pull = PullOfChanged(kNumKeys);
  std::vector<std::unique_ptr<Pulled>> readers;
  for (int i = 0; i < 64; ++i) readers.push_back(Start(pull));

  tasks_->RunAll();

  for (const auto& reader : readers) EXPECT_TRUE(reader->is_delta());
  EXPECT_EQ(store_->num_deltas_encoded(), kNumKeys);
  // Who comes later need not wait.
  EXPECT_TRUE(Start(pull)->is_delta());
  EXPECT_EQ(store_->num_deltas_encoded(), kNumKeys);
}

TEST_F(ChangesReplyTest, KeepsTheShareUntilItsCallerGivesUp) {
  const PullRequest pull = PullOfChanged(3);
  const auto cancellation = std::make_shared<Cancellation>();
  auto share = std::make_shared<int>();
  const std::weak_ptr<int> kept = share;

  const auto pulled =
      Start(pull, {.cancellation = cancellation, .share = share});
  share = nullptr;
  EXPECT_FALSE(pulled->has_ended());
  EXPECT_FALSE(kept.expired());
  cancellation->Cancel();

  ASSERT_TRUE(pulled->has_ended());
  EXPECT_THAT(*pulled->reply, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(kept.expired());
  tasks_->RunAll();
  EXPECT_EQ(store_->num_deltas_encoded(), 0);
  EXPECT_EQ(DeltaBytes(), 0);
}

TEST_F(ChangesReplyTest, EndsWithItsDeadline) {
  const PullRequest pull = PullOfChanged(3);
  const auto pulled = Start(pull, {.timeout = absl::Seconds(5)});

  alarms_.Advance(absl::Seconds(6));

  ASSERT_TRUE(pulled->has_ended());
  EXPECT_THAT(*pulled->reply, StatusIs(absl::StatusCode::kDeadlineExceeded));
  tasks_->RunAll();
  EXPECT_EQ(store_->num_deltas_encoded(), 0);
}

TEST_F(ChangesReplyTest, EndsWithTheStore) {
  const auto pulled = Start(PullOfChanged(3));

  store_->Stop();

  ASSERT_TRUE(pulled->has_ended());
  EXPECT_THAT(*pulled->reply, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(store_->num_deltas_encoded(), 0);
}

TEST_F(ChangesReplyTest, WhoPublishesEncodesNothingForThoseWhoWait) {
  PullRequest pull = PullOf(1);
  ASSERT_OK(Init("k0", Changed(2)));
  ASSERT_OK(CreateSnapshot());
  Hold(pull);
  pull.at = SnapshotAtLeast("s", 2);
  const auto pulled = Start(pull);

  PushRequest push = {.entries = {{.key = "k0", .tensor = Changed(3)}}};
  push.publish_as.emplace().set_series("s");
  bool is_published = false;
  store_->Push(push, {}, [&](const auto& reply) { is_published = reply.ok(); });

  EXPECT_TRUE(is_published);
  EXPECT_FALSE(pulled->has_ended());
  EXPECT_EQ(tasks_->num_of(kDeltas), 1);
  tasks_->RunAll();
  EXPECT_TRUE(pulled->is_delta());
}

TEST_F(ChangesReplyTest, SmallValuesComeWholeAndAreNotRemembered) {
  const PullRequest pull = PullOfChanged(100, /*num_elements=*/200);

  const auto pulled = Start(pull);

  ASSERT_TRUE(pulled->has_ended());
  EXPECT_TRUE(pulled->value().is_whole());
  EXPECT_EQ(DeltaBytes(), 0);
}

TEST_F(ChangesReplyTest, TokenOfAValueWithAnUpdateUnderWayNamesThatValue) {
  constexpr int64_t kLarge = 1 << 20;
  PullRequest pull = PullOf(1);
  ASSERT_OK(Init("k0", Changed(2, 1000, kLarge)));
  ASSERT_OK(CreateSnapshot());
  store_->Push({.entries = {{.key = "k0", .tensor = Changed(3, 1000, kLarge)}}},
               {}, [](const auto&) {});
  ASSERT_EQ(tasks_->num_of(kPushes), 1);
  const auto held = Start(pull);
  ASSERT_TRUE(held->has_ended());
  EXPECT_EQ(held->value().version, 1);
  pull.entries[0].held = held->value().change->token;
  tasks_->RunAll();

  EXPECT_TRUE(Pull(pull)->is_delta());
}

TEST_F(ChangesReplyTest, DeltasGoWhenNobodyAsksForThem) {
  const PullRequest pull = PullOfChanged(3);
  ASSERT_TRUE(Pull(pull)->is_delta());
  EXPECT_GT(DeltaBytes(), 0);

  for (int i = 0; i < 4; ++i) Advance(absl::Seconds(10));
  ASSERT_TRUE(Start(pull)->is_delta());
  for (int i = 0; i < 4; ++i) Advance(absl::Seconds(10));
  EXPECT_GT(DeltaBytes(), 0);
  for (int i = 0; i < 4; ++i) Advance(absl::Seconds(10));

  EXPECT_EQ(DeltaBytes(), 0);
}

TEST_F(ChangesReplyTest, WhatIsSureToBeTooLargeIsRefusedBeforeAnyWork) {
  PullRequest pull = PullOfChanged(2);
  pull.entries[0].held.clear();

  const auto pulled =
      Start(pull, {.max_reply_bytes = kDeltaElements * sizeof(float) - 1});

  ASSERT_TRUE(pulled->has_ended());
  EXPECT_THAT(*pulled->reply, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(tasks_->num_tasks(), 0);
}

class NoDeltasTest : public ChangesReplyTest {
 protected:
  NoDeltasTest()
      : ChangesReplyTest({.budget_bytes = 1 << 26, .max_delta_bytes = 1000}) {}
};

TEST_F(NoDeltasTest, WhereThereIsNoRoomTheWholeComes) {
  const PullRequest pull = PullOfChanged(3);

  const auto pulled = Start(pull);

  ASSERT_TRUE(pulled->has_ended());
  EXPECT_TRUE(pulled->value().is_whole());
}

class DeltaRoomTest : public ChangesReplyTest {
 protected:
  DeltaRoomTest()
      : ChangesReplyTest({.budget_bytes = 8 << 20,
                          .max_retained_bytes = 2'400'000,
                          .max_delta_bytes = 4 << 20}) {}
};

TEST_F(DeltaRoomTest, DeltasGoBeforeAnySnapshotDoes) {
  constexpr int64_t kLarge = 1 << 16;
  constexpr int kNumSnapshots = 8;
  std::vector<PullRequest> readers(kNumSnapshots, PullOf(1));
  ASSERT_OK(Init("k0", Changed(2, 5, kLarge)));
  for (int i = 0; i < kNumSnapshots; ++i) {
    ASSERT_OK(CreateSnapshot());
    Hold(readers[i]);
    ASSERT_OK(Push("k0", Changed(static_cast<float>(3 + i), 5, kLarge)));
  }
  for (const PullRequest& pull : readers) ASSERT_TRUE(Pull(pull)->is_delta());
  const uint64_t deltas = DeltaBytes();
  EXPECT_GT(deltas, 400 << 10);
  const uint64_t free = (8 << 20) - store_->used_bytes();
  ASSERT_OK(
      Init("rest", Full({static_cast<int64_t>(free / 4) - (160 << 10)}, 1)));

  ASSERT_OK(CreateSnapshot());
  ASSERT_OK(Push("k0", Changed(99, 5, kLarge)));
  Advance(absl::ZeroDuration());

  EXPECT_EQ(Summary().num_snapshots, kNumSnapshots + 1);
  EXPECT_LT(DeltaBytes(), deltas);
  EXPECT_LE(DeltaBytes(), store_->budgets().RoomForDeltas());
}

}  // namespace
}  // namespace tensorkv
