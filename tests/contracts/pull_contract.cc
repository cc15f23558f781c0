// Pull: reading, waiting for versions and keys, and what ends a wait.

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_P(PullContractTest, AnswersInTheOrderOfTheRequest) {
  ASSERT_OK(store_.InitMany({{"a", Full({1}, 1)}, {"b", Full({1}, 2)}}));

  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       store_.PullMany({{"b"}, {"a"}, {"b"}}));

  EXPECT_THAT(reply.values, ElementsAre(HasTensor(IsFilledWith(2)),
                                        HasTensor(IsFilledWith(1)),
                                        HasTensor(IsFilledWith(2))));
}

// The first such pull tells the client how much the next ones bring.
TEST_P(PullContractTest, ManySmallValuesAreAllThere) {
  constexpr int kNumKeys = 5000;
  std::vector<InitEntry> stored;
  std::vector<PullEntry> pulled;
  for (int i = 0; i < kNumKeys; ++i) {
    stored.push_back({absl::StrCat("k", i), Full({i % 100 + 40}, i)});
    pulled.push_back({stored.back().key});
  }
  ASSERT_OK(store_.InitMany(stored));

  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_OK_AND_ASSIGN(const PullReply reply, store_.PullMany(pulled));
    ASSERT_EQ(reply.values.size(), stored.size());
    for (int i = 0; i < kNumKeys; ++i) {
      ASSERT_THAT(reply.values[i], HasTensor(IsFilledWith(i)));
      ASSERT_EQ(reply.values[i].tensor.shape(), stored[i].tensor.shape());
    }
  }
}

TEST_P(PullContractTest, UnknownKeyIsNotFoundAtOnce) {
  for (const Version min_version : {0, 3}) {
    EXPECT_THAT(store_.Pull("w", min_version),
                StatusIs(StatusCode::kNotFound, HasSubstr("\"w\"")));
  }
}

TEST_P(PullContractTest, VersionThatIsThereIsAnsweredAtOnce) {
  ASSERT_OK(store_.Init("w", Full({1}, 1)));
  ASSERT_OK(store_.Push("w", Full({1}, 2)));

  EXPECT_THAT(store_.Pull("w", 1), IsOkAndHolds(HasVersion(2)));
  EXPECT_THAT(store_.Pull("w", 2), IsOkAndHolds(HasVersion(2)));
}

TEST_P(PullContractTest, WaitsForAVersion) {
  ASSERT_OK(store_.Init("w", Full({1}, 1)));
  Background pull([&] { return store_.Pull("w", 3); });
  AwaitWaitingCalls(store_, 1);

  ASSERT_OK(store_.Push("w", Full({1}, 2)));
  EXPECT_FALSE(pull.IsDone());
  ASSERT_OK(store_.Push("w", Full({1}, 3)));

  EXPECT_THAT(pull.Result(),
              IsOkAndHolds(AllOf(HasVersion(3), HasTensor(IsFilledWith(3)))));
  AwaitWaitingCalls(store_, 0);
}

TEST_P(PullContractTest, WaitsForEveryEntry) {
  ASSERT_OK(store_.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));
  Background pull([&] { return store_.PullMany({{"a", 2}, {"b", 2}}); });
  AwaitWaitingCalls(store_, 1);

  ASSERT_OK(store_.Push("b", Full({1}, 5)));
  EXPECT_FALSE(pull.IsDone());
  ASSERT_OK(store_.Push("a", Full({1}, 6)));

  ASSERT_OK_AND_ASSIGN(const PullReply reply, pull.Result());
  EXPECT_THAT(reply.values, ElementsAre(HasTensor(IsFilledWith(6)),
                                        HasTensor(IsFilledWith(5))));
}

TEST_P(PullContractTest, WaitsForAKeyToAppearAndReachAVersion) {
  Background pull([&] { return store_.Await("w", 2); });
  AwaitWaitingCalls(store_, 1);

  ASSERT_OK(store_.Init("w", Full({2}, 4)));
  EXPECT_FALSE(pull.IsDone());
  ASSERT_OK(store_.Push("w", Full({2}, 5)));

  EXPECT_THAT(pull.Result(), IsOkAndHolds(HasTensor(IsFilledWith(5))));
}

TEST_P(PullContractTest, CallerWhoCancelsWaitsNoMore) {
  const auto canceller = std::make_shared<Canceller>();
  const Caller caller = store_.EndedBy(canceller);
  ASSERT_OK(store_.Init("w", Full({1}, 1)));
  Background pull([&] { return caller.Pull("w", 2); });
  AwaitWaitingCalls(store_, 1);

  canceller->Cancel();

  EXPECT_THAT(pull.Result(), StatusIs(StatusCode::kCancelled));
  AwaitWaitingCalls(store_, 0);
}

// What is so large goes as a stream where there is a network.
TEST_P(PullContractTest, CallerWhoCancelsALargeCallWaitsNoMore) {
  const auto canceller = std::make_shared<Canceller>();
  const Caller group = NewSyncNamespace(2);
  const Tensor large = Full({3 << 20}, 1);
  ASSERT_OK(group.Init("w", large));
  const Caller worker = group.As(0).EndedBy(canceller);
  Background sum([&] { return worker.PushPull("w", large, 1); });
  AwaitWaitingCalls(group, 1);

  canceller->Cancel();

  // A stripe may hear from the server that another one is gone before it is
  // cancelled itself; of which Client makes Cancelled.
  EXPECT_THAT(sum.Result(), AnyOf(StatusIs(StatusCode::kCancelled),
                                  StatusIs(StatusCode::kAborted)));
  AwaitWaitingCalls(group, 0);
}

TEST_P(PullContractTest, ManyWaitersAreAllWoken) {
  constexpr int kWaiters = 8;
  ASSERT_OK(store_.Init("w", Full({1}, 1)));
  Background pulls([&] {
    RunConcurrently(kWaiters, [&](int) {
      EXPECT_THAT(store_.Pull("w", 2), IsOkAndHolds(HasVersion(2)));
    });
    return true;
  });
  AwaitWaitingCalls(store_, kWaiters);

  ASSERT_OK(store_.Push("w", Full({1}, 2)));

  EXPECT_TRUE(pulls.Result());
}

TEST_P(PullContractTest, DeadlineNamesTheKeyAndTheVersions) {
  ASSERT_OK(store_.Init("layer/w", Full({1}, 1)));

  ExpectWaitNames(
      "\"layer/w\": expected version 7, got 1", store_,
      [](const Caller& caller) { return caller.Pull("layer/w", 7).status(); });
  AwaitWaitingCalls(store_, 0);
}

TEST_P(PullContractTest, DeadlineNamesTheKeyThatNeverAppeared) {
  ExpectWaitNames("\"absent\"", store_, [](const Caller& caller) {
    return caller.Await("absent").status();
  });
}

TEST_P(PullContractTest, DeletedKeyEndsTheWaitForItsVersion) {
  ASSERT_OK(store_.Init("w", Full({1}, 1)));
  Background pull([&] { return store_.Pull("w", 2); });
  AwaitWaitingCalls(store_, 1);

  ASSERT_OK(store_.Delete({"w"}));

  EXPECT_THAT(pull.Result(),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"w\"")));
}

TEST_P(PullContractTest, DeletedKeyDoesNotEndTheWaitForItToAppear) {
  ASSERT_OK(store_.Init("w", Full({1}, 1)));
  Background pull([&] { return store_.Await("w", 3); });
  AwaitWaitingCalls(store_, 1);

  ASSERT_OK(store_.Delete({"w"}));
  ASSERT_OK(store_.Init("w", Full({1}, 5)));
  ASSERT_OK(store_.Push("w", Full({1}, 6)));

  EXPECT_THAT(pull.Result(), IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(PullContractTest, PulledTensorOutlivesItsKey) {
  ASSERT_OK(store_.Init("w", Full({1000}, 1)));
  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));

  ASSERT_OK(store_.Delete({"w"}));

  EXPECT_THAT(value.tensor, IsFilledWith(1));
}

}  // namespace
}  // namespace tensorkv::testing
