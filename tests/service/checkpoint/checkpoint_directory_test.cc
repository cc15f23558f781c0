#include "service/checkpoint/checkpoint_directory.h"

#include <sys/file.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tensor/rule_spec.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace checkpoint_directory_test {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::CheckpointsTest;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::PushOf;
using ::tensorkv::testing::SavedStore;
using ::tensorkv::testing::StatusIs;

// The directory of a server that ran once, and another server.
class CheckpointDirectoryTest : public CheckpointsTest {
 protected:
  // Its last checkpoint has 3, and 4 is lost.
  void RunOnce() {
    SavedStore& saved = Restart();
    ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1)));
    ASSERT_OK(saved.checkpoints().Save());
    ASSERT_OK(saved.Push(PushOf("", "k", Filled(DType::kF32, 3))));
    ASSERT_OK(saved.checkpoints().Save());
    ASSERT_OK(saved.Push(PushOf("", "k", Filled(DType::kF32, 4))));
    lost_version_ = saved.Stat("", "k").version();
  }
  // The partition of the key among four.
  static uint32_t PartitionOfK() { return PartitionOf("", "k", 4); }
  absl::Status TakeOver(uint32_t partition) {
    const PartitionSet set = {.num_partitions = 4, .partitions = {partition}};
    const std::unique_ptr<Restoration> restoration =
        other_.store().StartTakeover(set);
    const absl::Status status =
        RestoreLastIn(directory_, *restoration).status();
    if (status.ok()) other_.store().Own(set);
    return status;
  }

  Version lost_version_ = 0;
  SavedStore other_{absl::StrCat(directory_, "-other")};
};

TEST_F(CheckpointDirectoryTest, AnotherServerHasWhatTheLastCheckpointHas) {
  RunOnce();
  saved_.reset();

  ASSERT_OK(TakeOver(PartitionOfK()));

  EXPECT_EQ(BytesOf(other_.Pull("", "k")),
            BytesOf({.tensor = Filled(DType::kF32, 3)}));
  ASSERT_OK(other_.Push(PushOf("", "k", Filled(DType::kF32, 5))));
  EXPECT_GT(other_.Stat("", "k").version(), lost_version_);
}

TEST_F(CheckpointDirectoryTest, KeysOfOtherPartitionsArePassedOver) {
  RunOnce();
  saved_.reset();

  ASSERT_OK(TakeOver((PartitionOfK() + 1) % 4));

  EXPECT_TRUE(other_.store().List({})->keys().empty());
}

TEST_F(CheckpointDirectoryTest, GroupThatHadNoKeysHereGoesOnFromTheirSteps) {
  const CreateNamespaceRequest create =
      testing::CreateOf("g",
                        {.mode = Mode::kSync,
                         .num_workers = 1,
                         .rule = *ParseRuleSpec("accumulate")},
                        OnExisting::kFail, /*uid=*/7);
  const auto push = [](SavedStore& store, Step step) {
    PushRequest request = PushOf("g", "k", Filled(DType::kF32, 1));
    request.worker = Worker{.rank = 0};
    request.step = step;
    return store.Push(std::move(request));
  };
  constexpr Step kSteps = 20;
  SavedStore& saved = Restart();
  ASSERT_OK(testing::MakeNow(other_.store(), create));
  ASSERT_OK(testing::MakeNow(saved.store(), create));
  ASSERT_OK(saved.Init("g", "k", Filled(DType::kF32, 0)));
  for (Step step = 1; step <= kSteps; ++step) ASSERT_OK(push(saved, step));
  ASSERT_OK(saved.checkpoints().Save());
  saved_.reset();

  ASSERT_OK(TakeOver(PartitionOf("g", "k", 4)));

  EXPECT_OK(push(other_, kSteps + 1));
}

// Two workers of a namespace that is on both servers.
class TakeoverOfGroupTest : public CheckpointDirectoryTest {
 protected:
  // At `store`, with the key: both have closed 5 rounds of it, and the first
  // has contributed to two more.
  static std::vector<Worker> Run(SavedStore& store) {
    Create(store);
    EXPECT_OK(store.Init("g", "k", Filled(DType::kF32, 0)));
    std::vector<Worker> workers = {WorkerOf(Join(store, 0).worker()),
                                   WorkerOf(Join(store, 1).worker())};
    for (Step step = 1; step <= 7; ++step) {
      for (const Worker& worker : workers) {
        if (worker.rank == 1 && step > 5) continue;
        PushRequest request = PushOf("g", "k", Filled(DType::kF32, 1));
        request.worker = worker;
        request.step = step;
        EXPECT_OK(store.Push(std::move(request)));
      }
    }
    return workers;
  }
  static void Create(SavedStore& store) {
    CreateNamespace(store, "g", {.mode = Mode::kSync, .num_workers = 2},
                    /*uid=*/7);
  }
  static JoinReply Join(SavedStore& store, uint32_t rank) {
    return testing::MakeNow(store.store(),
                            testing::JoinOf("g", absl::StrCat("worker", rank),
                                            absl::Minutes(10), rank))
        .value();
  }
  static uint32_t PartitionOfKey() { return PartitionOf("g", "k", 4); }
};

// What a worker had contributed to rounds that were open is in no checkpoint.
TEST_F(TakeoverOfGroupTest, RepeatsOpenRoundsWhereItHadNoKeys) {
  Create(other_);
  Run(Restart());
  ASSERT_OK(saved_->checkpoints().Save());
  saved_.reset();

  ASSERT_OK(TakeOver(PartitionOfKey()));

  EXPECT_EQ(Join(other_, 0).next_step(), 6u);
}

TEST_F(TakeoverOfGroupTest, StaysWhereItIsIfNoKeyComes) {
  const auto keep_alive =
      testing::RequestOfMember<KeepAliveRequest>("g", Run(other_)[1]);
  const Step next_step =
      testing::MakeNow(other_.store(), keep_alive)->next_step();
  Create(Restart());
  ASSERT_OK(saved_->checkpoints().Save());
  saved_.reset();

  ASSERT_OK(TakeOver((PartitionOfKey() + 1) % 4));

  EXPECT_EQ(Join(other_, 1).next_step(), next_step);
}

TEST_F(CheckpointDirectoryTest, ServerThatRunsIsNotRestored) {
  RunOnce();

  EXPECT_THAT(TakeOver(PartitionOfK()),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(CheckpointDirectoryTest, NothingIsTakenForLess) {
  EXPECT_THAT(TakeOver(0), StatusIs(absl::StatusCode::kNotFound));
  Restart();
  saved_.reset();
  EXPECT_THAT(TakeOver(0), StatusIs(absl::StatusCode::kNotFound));

  RunOnce();
  saved_.reset();
  CutOff("auto-000000002/CHECKPOINT");
  EXPECT_THAT(TakeOver(PartitionOfK()), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace checkpoint_directory_test
}  // namespace tensorkv
