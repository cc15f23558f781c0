// Keys that come from another server, in the store that gets them.

#include "service/store/partition_moves.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "contract/placement.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/background.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Filled;
using ::tensorkv::testing::First;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::IsOk;
using ::testing::Each;

using Start =
    std::unique_ptr<Restoration> (PartitionMoves::*)(const PartitionSet&);

// This holds for every way in which keys come to a server.
class ArrivalTest : public testing::ScriptedStoreTest,
                    public ::testing::WithParamInterface<Start> {
 protected:
  // One of each kind that reads or changes "w", as they come out of the checks
  // of before; the one that deletes it is last.
  std::vector<absl::Status> CallAll() {
    SetStateRequest set_state;
    set_state.entries.push_back(
        {"w", "update_count", *Tensor::Filled(DType::kU64, {}, 1)});
    GetStateRequest get_state;
    get_state.entries.push_back({"w", "update_count"});
    return {
        Init("w", 7, OnExisting::kReplace),
        Init("w", 7, OnExisting::kKeep),
        testing::SetStateNow(store_, std::move(set_state)).status(),
        Push(PushOf("w", 7)).status(),
        Pull(PullOf("w")).status(),
        testing::GetStateNow(store_, std::move(get_state)).status(),
        testing::MakeNow(store_, testing::StatOf({"w"}), {}).status(),
        testing::MakeNow(store_, testing::DeleteOf({"w"}), {}).status(),
    };
  }

  PartitionMoves& moves() { return store_; }

  const PartitionSet all_ = {.num_partitions = 1, .partitions = {0}};
};

// It has passed all checks while the keys were here before, and has waited.
TEST_P(ArrivalTest, NoCallOfBeforeHasAnEffectUntilTheKeysAreOwned) {
  NamespaceSnapshot name_space = {.name = "default"};
  name_space.config = testing::ConfigOf(testing::Described(store_));
  name_space.uid = testing::Described(store_).uid();
  KeySnapshot key;
  key.key = "w";
  key.value = Filled(3);
  std::vector<KeySnapshot> keys;
  keys.push_back(std::move(key));

  const auto arrival = (moves().*GetParam())(all_);
  EXPECT_THAT(CallAll(), Each(HasReason(Reason::kWrongServer)));
  ASSERT_OK(arrival->Begin(name_space));
  ASSERT_OK(arrival->Add(std::move(keys)));
  EXPECT_THAT(CallAll(), Each(HasReason(Reason::kWrongServer)));
  ASSERT_OK(arrival->Commit());
  EXPECT_THAT(CallAll(), Each(HasReason(Reason::kWrongServer)));
  moves().Own(all_);

  ASSERT_OK_AND_ASSIGN(const Value value, Pull(PullOf("w")));
  EXPECT_EQ(First(value), 3);
  EXPECT_THAT(CallAll(), Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(AllWays, ArrivalTest,
                         ::testing::Values(&PartitionMoves::StartAdoption,
                                           &PartitionMoves::StartTakeover));

// The update of a key that was deleted ends after versions were passed over, of
// which nobody knew when the key went.
TEST_P(ArrivalTest, UpdateOfADeletedKeyMakesNoVersionOfTheKeyThatFollows) {
  ASSERT_OK(Init("w", 1));
  backend_.Hold();
  testing::Inbox<PushReply> late;
  testing::Background push([&] {
    store_.Push(PushOf("w", 2), {}, late.Callback());
    return absl::OkStatus();
  });
  backend_.WaitUntilHeld();
  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"w"})));
  NamespaceSnapshot name_space = {
      .name = "default", .max_version = 1000, .restored_versions = 1000};
  name_space.config = testing::ConfigOf(testing::Described(store_));
  name_space.uid = testing::Described(store_).uid();

  const auto arrival = (moves().*GetParam())(
      {.num_partitions = 2,
       .partitions = {1 - PartitionOf("default", "w", 2)}});
  ASSERT_OK(arrival->Begin(name_space));
  ASSERT_OK(arrival->Commit());
  backend_.Release();
  ASSERT_OK(push.Result());
  late.Wait();
  ASSERT_OK(Init("w", 3));
  ASSERT_OK_AND_ASSIGN(const Value next, Pull(PullOf("w")));

  ASSERT_OK(*late.answer);
  EXPECT_LT((*late.answer)->results[0].version, next.version);
}

// Keys that come to a group that has keys here, of workers that do not join.
class ArrivalAtGroupTest : public ArrivalTest {
 protected:
  ArrivalAtGroupTest() {
    CreateSyncNamespace(2);
    saved_.config = testing::ConfigOf(testing::Described(store_, "sync"));
    saved_.uid = testing::Described(store_, "sync").uid();
  }
  // A key of another partition than "w", of which a contribution to step 1 was
  // left behind.
  std::vector<KeySnapshot> Arriving() const {
    std::vector<KeySnapshot> keys(1);
    keys[0].key = "k";
    while (PartitionOf("sync", keys[0].key, 2) == own_.partitions[0]) {
      keys[0].key += "k";
    }
    keys[0].value = Filled(3);
    keys[0].first_unsaved = 1;
    return keys;
  }

  const PartitionSet own_ = {.num_partitions = 2,
                             .partitions = {PartitionOf("sync", "w", 2)}};
  const PartitionSet arriving_ = {.num_partitions = 2,
                                  .partitions = {1 - own_.partitions[0]}};
  NamespaceSnapshot saved_ = {.name = "sync"};
};

// Else it would wait for a round that nobody has to make before the steps that
// come before it have been made again.
TEST_P(ArrivalAtGroupTest,
       PullThatWaitsIsAnsweredAsOneThatComesWhenStepsHaveGoneBack) {
  ASSERT_OK(Push(SyncPush(0, 1, 1)));
  ASSERT_OK(Push(SyncPush(1, 1, 1)));
  ASSERT_OK(Push(SyncPush(0, 2, 1)));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    saved_.workers.push_back({.worker = {.rank = rank}, .step = 1});
  }
  testing::Inbox<PullReply> before;
  testing::Inbox<PullReply> between;
  store_.Pull(SyncPull(0), {}, before.Callback());

  const auto arrival = (moves().*GetParam())(arriving_);
  ASSERT_OK(arrival->Begin(saved_));
  ASSERT_OK(arrival->Add(Arriving()));
  // It may come to nothing yet.
  store_.Pull(SyncPull(0), {}, between.Callback());
  ASSERT_TRUE(before.is_empty() && between.is_empty());
  ASSERT_OK(arrival->Commit());

  ASSERT_OK_AND_ASSIGN(const Value value, Pull(SyncPull(0)));
  for (testing::Inbox<PullReply>* const each : {&before, &between}) {
    ASSERT_FALSE(each->is_empty());
    ASSERT_OK(*each->answer);
    EXPECT_EQ(First((*each->answer)->values[0]), First(value));
  }
}

// The server knows of no step of theirs any more, but nobody has told them to
// go back.
TEST_P(ArrivalAtGroupTest,
       RoundsOfWorkersThatDoNotJoinCloseBeforeTheirKeyMoves) {
  ASSERT_OK(Push(SyncPush(0, 1, 1)));
  const auto arrival = (moves().*GetParam())(arriving_);
  ASSERT_OK(arrival->Begin(saved_));
  ASSERT_OK(arrival->Add(Arriving()));
  ASSERT_OK(arrival->Commit());

  EXPECT_THAT(
      moves().Fence(own_, [] { return absl::CancelledError("it waits"); }),
      testing::StatusIs(absl::StatusCode::kCancelled));

  moves().Unfence();
}

INSTANTIATE_TEST_SUITE_P(AllWays, ArrivalAtGroupTest,
                         ::testing::Values(&PartitionMoves::StartAdoption,
                                           &PartitionMoves::StartTakeover));

}  // namespace
}  // namespace tensorkv
