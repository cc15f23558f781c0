// What a store reserves before it takes it, and gives back.

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Filled;
using ::tensorkv::testing::First;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::Inbox;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

using CountedMemoryTest = testing::ScriptedStoreTest;

TEST_F(CountedMemoryTest, PushReservesRoomForANewValue) {
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
  const v1::MemoryUse memory = testing::Described(store_).memory();
  EXPECT_EQ(memory.values(), 400000u);
  EXPECT_EQ(memory.contributions(), 0u);
}

TEST_F(CountedMemoryTest, NamespaceGoesOnWhileStatesAreAllocated) {
  ASSERT_OK(Init("w", 1));
  backend_.WhenAllocating([this] {
    EXPECT_OK(Push(PushOf("w", 2)));
    EXPECT_OK(Init("new", 1));
  });

  ASSERT_OK(testing::MakeNow(store_, testing::SetRuleOf("adam")));

  EXPECT_EQ(First(*Pull(PullOf("w"))), 2);
  // The key that came meanwhile has the rule too.
  const ListReply list = store_.List({}).value();
  for (const KeyStatus& key : list.keys()) {
    EXPECT_EQ(key.rule().name(), "adam") << key.key();
    EXPECT_EQ(key.state_bytes(), 2 * 4 * sizeof(float)) << key.key();
  }
}

TEST_F(CountedMemoryTest, RuleWithoutRoomForItsStateChangesNothing) {
  InitRequest init;
  init.entries.push_back({"small", Filled(1)});
  init.entries.push_back({"w", Filled(1, {100000})});
  ASSERT_OK(InitNow(store_, std::move(init)));

  EXPECT_THAT(testing::MakeNow(store_, testing::SetRuleOf("adam")),
              StatusIs(absl::StatusCode::kResourceExhausted));

  const NamespaceStatus status = testing::Described(store_);
  EXPECT_EQ(status.memory().state(), 0u);
  EXPECT_EQ(status.rules()[0].rule().name(), "assign");
}

TEST_F(CountedMemoryTest, AllocationThatFailsGivesItsBytesBack) {
  backend_.FailAllocate(absl::ResourceExhaustedError("no memory"));

  EXPECT_THAT(Init("w", 1), StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(store_.used_bytes(), 0u);
  backend_.FailAllocate(absl::OkStatus());
  ASSERT_OK(Init("w", 1));
  ASSERT_OK_AND_ASSIGN(const Value reader, Pull(PullOf("w")));
  const uint64_t used_bytes = store_.used_bytes();
  backend_.FailAllocate(absl::ResourceExhaustedError("no memory"));

  EXPECT_THAT(Push(PushOf("w", 2)),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(store_.used_bytes(), used_bytes);
}

TEST_F(CountedMemoryTest, MemoryOfARoundDoesNotGrowWithItsWorkers) {
  CreateSyncNamespace(100);
  uint64_t most = 0;

  for (uint32_t rank = 0; rank < 100; ++rank) {
    ASSERT_OK(Push(SyncPush(rank, 1, rank)));
    most = std::max(
        most, testing::Described(store_, "sync").memory().contributions());
  }

  EXPECT_LE(most, Rounds::kMinPartialSum * 4 * sizeof(float));
  EXPECT_EQ(First(*Pull(SyncPull(7))), 99 * 100 / 2);
  EXPECT_EQ(testing::Described(store_, "sync").memory().contributions(), 0u);
}

// The highest ranks come first.
TEST_F(CountedMemoryTest, MemoryOfARoundInOrderOfArrivalIsOneSum) {
  CreateSyncNamespace(100, SumOrder::kArrival);
  uint64_t most = 0;

  for (uint32_t rank = 100; rank-- > 0;) {
    ASSERT_OK(Push(SyncPush(rank, 1, rank)));
    most = std::max(
        most, testing::Described(store_, "sync").memory().contributions());
  }

  EXPECT_LE(most, 4 * sizeof(float));
  EXPECT_EQ(First(*Pull(SyncPull(7))), 99 * 100 / 2);
  EXPECT_EQ(testing::Described(store_, "sync").memory().contributions(), 0u);
}

// The sum is added to where it is.
TEST_F(CountedMemoryTest, RoundWhoseSumIsLostFails) {
  CreateSyncNamespace(4, SumOrder::kArrival);
  ASSERT_OK(Push(SyncPush(3, 1, 3)));
  ASSERT_OK(Push(SyncPush(2, 1, 2)));
  backend_.FailApply(absl::InternalError("no device"));
  ASSERT_OK(Push(SyncPush(1, 1, 1)));
  backend_.FailApply(absl::OkStatus());

  EXPECT_THAT(Pull(SyncPull(3)), StatusIs(absl::StatusCode::kAborted));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_OK(Push(SyncPush(rank, 1, rank)));
  }
  EXPECT_EQ(First(*Pull(SyncPull(3))), 6);
}

TEST_F(CountedMemoryTest, SkippedContributionsAreCounted) {
  CreateSyncNamespace(4096);
  PushRequest push = SyncPush(4000, 1, 0);
  push.entries[0].skip = true;
  push.entries[0].tensor = Tensor();
  const uint64_t before = store_.used_bytes();

  ASSERT_OK(Push(std::move(push)));

  EXPECT_GE(store_.used_bytes(), before + kContributionOverheadBytes);
  EXPECT_LE(store_.used_bytes(), before + 2 * kContributionOverheadBytes);
}

TEST_F(CountedMemoryTest, PushPullOfTooMuchHasNoEffect) {
  ASSERT_OK(Init("w", 1));
  Inbox<PullReply> inbox;

  store_.PushPull({PushOf("w", 2)}, {.max_reply_bytes = 15}, inbox.Callback());

  EXPECT_THAT(*inbox.answer, StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr("at most 15 bytes, got 16")));
  EXPECT_THAT(inbox.answer->status(), HasReason(Reason::kReplyTooLarge));
  EXPECT_EQ(Pull(PullOf("w"))->version, 1u);
}

TEST_F(CountedMemoryTest, NamesOfAWaitingPullAreCounted) {
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
  EXPECT_THAT(second.answer->status(), HasReason(Reason::kOverBudget));
  alarms_.Advance(absl::Seconds(1));
  ASSERT_FALSE(first.is_empty());
  EXPECT_EQ(store_.used_bytes(), before);
}

TEST_F(CountedMemoryTest, ElementsOfAWaitingRepeatAreCounted) {
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

// So many that they are read by another thread, when nobody else has the key.
TEST_F(CountedMemoryTest, KeyStaysWhileItsRowsAreReadThoughItIsDeleted) {
  InitRequest init;
  init.entries.push_back({"rows", Filled(7, {2, 256})});
  ASSERT_OK(InitNow(store_, std::move(init)));
  PullRequest pull;
  PullEntry& entry = pull.entries.emplace_back();
  entry.key = "rows";
  ASSERT_OK_AND_ASSIGN(Tensor ids, Tensor::Filled(DType::kI64, {600}, 1));
  ASSERT_OK_AND_ASSIGN(entry.rows, RowIds::Create(std::move(ids)));
  backend_.WhenAllocating([this] {
    EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf({"rows"})));
  });

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      testing::MakeNow(store_, PullRowsRequest{std::move(pull)}));

  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(7));
}

}  // namespace
}  // namespace tensorkv
