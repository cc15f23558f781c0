#include "service/cluster/placed_store.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cluster/known_placement.h"
#include "tests/service/cluster/two_servers.h"
#include "tests/service/mock_store.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace placed_store_test {

using testing::AnswerWith;
using testing::HasReason;
using testing::KeyOfServer;
using testing::MockTensorStore;
using ::testing::Return;
using ::testing::StrictMock;
using testing::TwoServers;

class MockStaging : public Staging {
 public:
  MOCK_METHOD(absl::Status, CheckInit, (const InitRequest&, const CallContext&),
              (override));
  MOCK_METHOD(absl::Status, CheckPush, (const PushRequest&, const CallContext&),
              (override));
  MOCK_METHOD(absl::Status, CheckSetState,
              (const SetStateRequest&, const CallContext&), (override));
  MOCK_METHOD(absl::Status, Allocate,
              (absl::string_view, absl::Span<Tensor* const>,
               const CallContext&),
              (override));
};

// A request about one key of each of the servers.
template <typename Request>
Request About(const std::vector<std::string>& servers) {
  Request request;
  for (const std::string& server : servers) {
    if constexpr (requires { request.entries; }) {
      request.entries.emplace_back().key = KeyOfServer(server);
    } else {
      request.add_keys(KeyOfServer(server));
    }
  }
  return request;
}

// What a call that takes a callback answers; it answers at once.
template <typename Reply, typename Request>
absl::Status Ask(TensorStore& store,
                 void (TensorStore::*verb)(Request, CallContext,
                                           ReplyCallback<Reply>),
                 Request request) {
  std::optional<absl::Status> status;
  (store.*verb)(std::move(request), {},
                [&](absl::StatusOr<Reply> reply) { status = reply.status(); });
  return *status;
}

// What each verb that names keys answers about keys of those servers.
std::vector<absl::Status> AskAll(PlacedStore& store,
                                 const std::vector<std::string>& servers) {
  const auto init = About<InitRequest>(servers);
  const auto push = About<PushRequest>(servers);
  const auto set_state = About<SetStateRequest>(servers);
  return {Ask(store, &TensorStore::Init, init),
          Ask(store, &TensorStore::Push, push),
          Ask(store, &TensorStore::Pull, About<PullRequest>(servers)),
          Ask(store, &TensorStore::PushPull, About<PushPullRequest>(servers)),
          Ask(store, &TensorStore::SetState, set_state),
          Ask(store, &TensorStore::GetState, About<GetStateRequest>(servers)),
          store.Delete(About<DeleteRequest>(servers), {}).status(),
          store.Stat(About<StatRequest>(servers), {}).status(),
          store.CheckInit(init, {}),
          store.CheckPush(push, {}),
          store.CheckSetState(set_state, {})};
}

class PlacedStoreTest : public ::testing::Test {
 protected:
  void ExpectEveryVerb() {
    EXPECT_CALL(inner_, Init).WillOnce(AnswerWith<InitReply>(InitReply()));
    EXPECT_CALL(inner_, Push).WillOnce(AnswerWith<PushReply>(PushReply()));
    EXPECT_CALL(inner_, Pull).WillOnce(AnswerWith<PullReply>(PullReply()));
    EXPECT_CALL(inner_, PushPull).WillOnce(AnswerWith<PullReply>(PullReply()));
    EXPECT_CALL(inner_, SetState)
        .WillOnce(AnswerWith<SetStateReply>(SetStateReply()));
    EXPECT_CALL(inner_, GetState)
        .WillOnce(AnswerWith<GetStateReply>(GetStateReply()));
    EXPECT_CALL(inner_, Delete).WillOnce(Return(DeleteReply()));
    EXPECT_CALL(inner_, Stat).WillOnce(Return(StatReply()));
    EXPECT_CALL(inner_staging_, CheckInit).WillOnce(Return(absl::OkStatus()));
    EXPECT_CALL(inner_staging_, CheckPush).WillOnce(Return(absl::OkStatus()));
    EXPECT_CALL(inner_staging_, CheckSetState)
        .WillOnce(Return(absl::OkStatus()));
  }

  StrictMock<MockTensorStore> inner_;
  StrictMock<MockStaging> inner_staging_;
  KnownPlacement known_{""};
  PlacedStore store_{&inner_, &inner_staging_, &known_};
};

TEST_F(PlacedStoreTest, MirroredKeysAreEveryServers) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  const IsMirrored is_mirrored = [](absl::string_view) { return true; };
  PlacedStore store(&inner_, &inner_staging_, &known_, {}, is_mirrored);
  ExpectEveryVerb();

  EXPECT_THAT(AskAll(store, {"a", "b"}), ::testing::Each(testing::IsOk()));
  auto of_other = About<PullRequest>({"a"});
  of_other.worker = Worker{.rank = 3};
  EXPECT_THAT(
      Ask<PullReply>(store, &TensorStore::Pull, std::move(of_other)),
      HasReason(Reason::kWrongServer,
                {{"key", ""}, {"address", "b:1"}, {"placement_version", "1"}}));
}

TEST_F(PlacedStoreTest, ServerInNoClusterTakesEveryKey) {
  ExpectEveryVerb();

  EXPECT_THAT(AskAll(store_, {"a", "b"}), ::testing::Each(testing::IsOk()));
}

TEST_F(PlacedStoreTest, OwnKeysAreTaken) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  ExpectEveryVerb();

  EXPECT_THAT(AskAll(store_, {"a"}), ::testing::Each(testing::IsOk()));
}

TEST_F(PlacedStoreTest, CallWithOneKeyOfAnotherServerIsRefusedWhole) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));

  EXPECT_THAT(AskAll(store_, {"a", "b"}),
              ::testing::Each(HasReason(Reason::kWrongServer)));
}

// Keys come between two looks at the placement.
TEST_F(PlacedStoreTest, PushThatWasNotMadeIsNotSaidToBe) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  PlacedStore store(&inner_, &inner_staging_, &known_, {},
                    [&](absl::string_view) {
                      EXPECT_OK(known_.Set(TwoServers(2), "b"));
                      return false;
                    });

  EXPECT_THAT(Ask<PullReply>(store, &TensorStore::PushPull,
                             About<PushPullRequest>({"b"})),
              HasReason(Reason::kWrongServer));
}

TEST_F(PlacedStoreTest, ListAndMemoryNameNoKeys) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  EXPECT_CALL(inner_, List).WillOnce(Return(ListReply()));
  EXPECT_CALL(inner_staging_, Allocate).WillOnce(Return(absl::OkStatus()));

  EXPECT_OK(store_.List({}, {}));
  EXPECT_OK(store_.Allocate("n", {}, {}));
}

TEST_F(PlacedStoreTest, ListIsOfThePlacementThatItNames) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  // Keys come while it is made.
  EXPECT_CALL(inner_, List)
      .WillOnce([&](const auto&, const auto&) {
        EXPECT_OK(known_.Set(TwoServers(2), "a"));
        return ListReply();
      })
      .WillOnce(
          Return(testing::PageOfKeys({KeyOfServer("a"), KeyOfServer("b")})));

  ASSERT_OK_AND_ASSIGN(const ListReply reply, store_.List({}, {}));

  ASSERT_EQ(reply.keys_size(), 1);
  EXPECT_EQ(reply.keys(0).key(), KeyOfServer("a"));
  EXPECT_EQ(reply.placement_version(), 2u);
}

}  // namespace placed_store_test
}  // namespace tensorkv
