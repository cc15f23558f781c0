// What calls look at under the mutex of a namespace, while all others wait.

#include "service/store/looks.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "contract/row_ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Lt;

using PullAnswer = Answer<absl::StatusOr<PullReply>>;

constexpr uint32_t kPartitions = 2;

class LooksTest : public ::testing::Test {
 protected:
  static constexpr size_t kManyKeys = 500;

  static Tensor One(double value = 1) {
    return *Tensor::Filled(DType::kF32, {2}, value);
  }
  // Keys of which none is in partition 0.
  static std::vector<std::string> KeysThatStay(const std::string& name_space) {
    std::vector<std::string> keys;
    for (int i = 0; keys.size() < kManyKeys; ++i) {
      const std::string key = absl::StrCat("k", i);
      if (PartitionOf(name_space, key, kPartitions) == 1) keys.push_back(key);
    }
    return keys;
  }
  void CreateGroup(uint32_t num_workers = 2) {
    ASSERT_OK(testing::MakeNow(
        store_, testing::CreateOf(
                    "s", {.mode = Mode::kSync, .num_workers = num_workers})));
  }
  absl::Status Init(const std::string& name_space,
                    const std::vector<std::string>& keys,
                    OnExisting on_existing = OnExisting::kFail) {
    InitRequest request = {.name_space = name_space};
    request.on_existing = on_existing;
    for (const std::string& key : keys) request.entries.push_back({key, One()});
    return InitNow(store_, std::move(request)).status();
  }
  PullAnswer Pull(PullRequest request) {
    const PullAnswer answer;
    store_.Pull(std::move(request), {},
                [answer](absl::StatusOr<PullReply> reply) {
                  answer.Set(std::move(reply));
                });
    return answer;
  }
  // The worker contributes to a round of each key.
  void Contribute(const std::vector<std::string>& keys,
                  const Worker& worker = {.rank = 0}) {
    PushRequest request;
    request.name_space = "s";
    request.worker = worker;
    request.step = 1;
    for (const std::string& key : keys) {
      request.entries.push_back({key, false, One()});
    }
    const Answer<absl::StatusOr<PushReply>> answer;
    store_.Push(std::move(request), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(std::move(reply));
                });
    ASSERT_OK(answer.Wait());
  }
  // And waits for all of them.
  PullAnswer PullOfContributor(const std::vector<std::string>& keys,
                               bool wait_for_keys,
                               const Worker& worker = {.rank = 0}) {
    PullRequest request;
    request.name_space = "s";
    request.worker = worker;
    request.wait_for_keys = wait_for_keys;
    for (const std::string& key : keys) request.entries.push_back({key});
    return Pull(std::move(request));
  }
  // When a worker has a round of a key "other", and pulls wait for many more.
  void ExpectLooksAtOthersAreFew(absl::FunctionRef<void()> end_key) {
    CreateGroup();
    const std::vector<std::string> keys = KeysThatStay("s");
    ASSERT_OK(Init("s", {"other"}));
    ASSERT_OK(Init("s", keys));
    Contribute({"other"});
    Contribute(keys);
    std::vector<PullAnswer> pulls;
    for (int i = 0; i < 20; ++i) {
      pulls.push_back(PullOfContributor(keys, /*wait_for_keys=*/i % 2 == 0));
    }
    const uint64_t before = num_looks;

    end_key();

    EXPECT_LT(num_looks - before, 15u);
    for (const PullAnswer& pull : pulls) EXPECT_FALSE(pull.HasArrived());
    store_.CancelWaits();
  }

  ScriptedBackend backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{}, &backend_, &alarms_};
};

TEST_F(LooksTest, KeyThatComesWakesAPullThatLooksAtThatKeyAlone) {
  const std::vector<std::string> keys = KeysThatStay("default");
  ASSERT_OK(store_.Fence({.num_partitions = kPartitions, .partitions = {0}},
                         [] { return absl::OkStatus(); }));
  store_.GiveAway();
  PullRequest request;
  for (const std::string& key : keys) request.entries.push_back({key});
  request.wait_for_keys = true;
  const PullAnswer answer = Pull(std::move(request));
  std::vector<uint64_t> looks;

  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    const uint64_t before = num_looks;
    ASSERT_OK(Init("", {keys[i]}));
    looks.push_back(num_looks - before);
  }

  EXPECT_THAT(looks, Each(Lt(30u)));
  EXPECT_FALSE(answer.HasArrived());
  ASSERT_OK(Init("", {keys.back()}));
  EXPECT_OK(answer.Wait());
}

TEST_F(LooksTest, PullOfAKeyThatLeavesEndsThoughItWaitsForAnother) {
  const std::vector<std::string> keys = KeysThatStay("default");
  std::string leaving = "x";
  while (PartitionOf("default", leaving, kPartitions) != 0) leaving += "x";
  ASSERT_OK(Init("", {leaving}));
  PullRequest request;
  request.entries = {{keys[0]}, {leaving}};
  request.wait_for_keys = true;
  const PullAnswer answer = Pull(std::move(request));
  ASSERT_OK(store_.Fence({.num_partitions = kPartitions, .partitions = {0}},
                         [] { return absl::OkStatus(); }));

  store_.FenceReads();

  EXPECT_THAT(answer.Wait(), HasReason(Reason::kKeyMoving));
  store_.Unfence();
}

TEST_F(LooksTest, DeletedKeyOfARoundLooksAtThosePullsThatKnowIt) {
  ExpectLooksAtOthersAreFew([this] {
    ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"other"}, "s")));
  });
}

TEST_F(LooksTest, ReplacedKeyOfARoundLooksAtThosePullsThatKnowIt) {
  ExpectLooksAtOthersAreFew(
      [this] { ASSERT_OK(Init("s", {"other"}, OnExisting::kReplace)); });
}

TEST_F(LooksTest, LeaveLooksAtThosePullsThatWaitForItsWorker) {
  CreateGroup(/*num_workers=*/3);
  const std::vector<std::string> keys = KeysThatStay("s");
  ASSERT_OK(Init("s", {"lacking"}));
  ASSERT_OK(Init("s", keys));
  std::vector<Worker> workers;
  for (const char* const name : {"a", "b", "c"}) {
    ASSERT_OK_AND_ASSIGN(
        const JoinReply joined,
        testing::MakeNow(store_, testing::JoinOf("s", name, absl::Hours(1))));
    workers.push_back(WorkerOf(joined.worker()));
  }
  Contribute({"lacking"}, workers[0]);
  for (const int i : {0, 2}) Contribute(keys, workers[i]);
  std::vector<PullAnswer> pulls;
  for (int i = 0; i < 20; ++i) {
    pulls.push_back(PullOfContributor(keys, i % 2 == 0, workers[0]));
  }
  const PullAnswer lacking =
      PullOfContributor({keys[0], "lacking"}, true, workers[0]);
  const uint64_t before = num_looks;

  ASSERT_OK(testing::MakeNow(
      store_, testing::RequestOfMember<LeaveRequest>("s", workers[2])));

  EXPECT_LT(num_looks - before, 100u);
  EXPECT_THAT(lacking.Wait(), HasReason(Reason::kWorkerLeft));
  for (const PullAnswer& pull : pulls) EXPECT_FALSE(pull.HasArrived());
  store_.CancelWaits();
}

// Whether or not it may wait for keys: what its worker had contributed to is
// gone.
TEST_F(LooksTest, ContributorHearsThatAnyKeyOfItsRoundsHasGone) {
  CreateGroup();
  for (const bool wait_for_keys : {false, true}) {
    ASSERT_OK(Init("s", {"a", "b"}, OnExisting::kReplace));
    Contribute({"a", "b"});
    const PullAnswer of_deleted = PullOfContributor({"a", "b"}, wait_for_keys);
    ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"b"}, "s")));
    EXPECT_THAT(of_deleted.Wait(), HasReason(Reason::kKeyNotFound));
    ASSERT_OK(Init("s", {"b"}));
    Contribute({"b"});
    const PullAnswer of_replaced = PullOfContributor({"a", "b"}, wait_for_keys);
    ASSERT_OK(Init("s", {"b"}, OnExisting::kReplace));
    EXPECT_THAT(of_replaced.Wait(), HasReason(Reason::kKeyReplaced));
  }
}

// Its rounds have closed, so that nothing of them is lost.
TEST_F(LooksTest, PullThatWaitsForKeysOutlivesThoseOfClosedRounds) {
  CreateGroup();
  ASSERT_OK(Init("s", {"a", "b"}));
  Contribute({"a", "b"});
  const PullAnswer answer =
      PullOfContributor({"a", "b"}, /*wait_for_keys=*/true);
  PushRequest other;
  other.name_space = "s";
  other.worker = Worker{.rank = 1};
  other.step = 1;
  other.entries.push_back({"b", false, One()});
  const Answer<absl::StatusOr<PushReply>> pushed;
  store_.Push(std::move(other), {}, [pushed](absl::StatusOr<PushReply> reply) {
    pushed.Set(std::move(reply));
  });
  ASSERT_OK(pushed.Wait());

  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"b"}, "s")));

  EXPECT_FALSE(answer.HasArrived());
  store_.CancelWaits();
  EXPECT_THAT(answer.Wait(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(LooksTest, RowsOfOneKeyAreReadAsOneBatch) {
  InitRequest init;
  init.entries.push_back(
      {"w", *Tensor::CopyOf(DType::kF32, {4, 1},
                            std::vector<float>{0, 1, 2, 3}.data())});
  ASSERT_OK(InitNow(store_, std::move(init)));
  PullRequest request;
  constexpr int64_t kEntries = 100;
  for (int64_t i = 0; i < kEntries; ++i) {
    const int64_t row = i % 4;
    request.entries.push_back(
        {.key = "w",
         .rows = *RowIds::Create(*Tensor::CopyOf(DType::kI64, {1}, &row))});
  }
  const int64_t before = backend_.num_applied();

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull(std::move(request)).Wait());

  EXPECT_EQ(backend_.num_applied() - before, 1);
  for (int64_t i = 0; i < kEntries; ++i) {
    EXPECT_THAT(reply.values[i].tensor.elements<float>(), ElementsAre(i % 4));
    EXPECT_EQ(reply.values[i].version, 1u);
  }
}

}  // namespace
}  // namespace tensorkv
