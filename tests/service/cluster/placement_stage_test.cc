#include "service/cluster/placement_stage.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cluster/known_placement.h"
#include "service/store/call_dispatch.h"
#include "tests/service/cluster/two_servers.h"
#include "tests/service/mock_store.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace placement_stage_test {

using testing::AnswerWith;
using ::testing::Each;
using testing::HasReason;
using testing::IsOk;
using testing::KeyOfServer;
using testing::MockTensorStore;
using testing::StatusIs;
using ::testing::StrictMock;
using testing::TwoServers;

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

// What each verb that names keys answers about keys of those servers.
std::vector<absl::Status> AskAll(const CallDispatch& calls,
                                 const std::vector<std::string>& servers) {
  return {calls.MakeAndWait(About<InitRequest>(servers)).status(),
          calls.MakeAndWait(About<PushRequest>(servers)).status(),
          calls.MakeAndWait(About<PullRequest>(servers)).status(),
          calls.MakeAndWait(About<PushPullRequest>(servers)).status(),
          calls.MakeAndWait(About<SetStateRequest>(servers)).status(),
          calls.MakeAndWait(About<GetStateRequest>(servers)).status(),
          calls.MakeAndWait(About<DeleteRequest>(servers)).status(),
          calls.MakeAndWait(About<StatRequest>(servers)).status()};
}

class PlacementStageTest : public ::testing::Test {
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
    EXPECT_CALL(inner_, Delete)
        .WillOnce(AnswerWith<DeleteReply>(DeleteReply()));
    EXPECT_CALL(inner_, Stat).WillOnce(AnswerWith<StatReply>(StatReply()));
  }

  StrictMock<MockTensorStore> inner_;
  KnownPlacement known_{""};
  const PlacementStage stage_{&known_};
  const CallDispatch calls_{{.store = &inner_, .stages = {&stage_}}};
};

TEST_F(PlacementStageTest, MirroredKeysAreEveryServers) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  const PlacementStage stage(&known_, {},
                             [](absl::string_view) { return true; });
  const CallDispatch calls({.store = &inner_, .stages = {&stage}});
  ExpectEveryVerb();

  EXPECT_THAT(AskAll(calls, {"a", "b"}), ::testing::Each(testing::IsOk()));
  auto of_other = About<PullRequest>({"a"});
  of_other.worker = Worker{.rank = 3};
  EXPECT_THAT(
      calls.MakeAndWait(std::move(of_other)),
      HasReason(Reason::kWrongServer,
                {{"key", ""}, {"address", "b:1"}, {"placement_version", "1"}}));
}

TEST_F(PlacementStageTest, ServerInNoClusterTakesEveryKey) {
  ExpectEveryVerb();

  EXPECT_THAT(AskAll(calls_, {"a", "b"}), ::testing::Each(testing::IsOk()));
}

TEST_F(PlacementStageTest, OwnKeysAreTaken) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  ExpectEveryVerb();

  EXPECT_THAT(AskAll(calls_, {"a"}), ::testing::Each(testing::IsOk()));
}

TEST_F(PlacementStageTest, CallWithOneKeyOfAnotherServerIsRefusedWhole) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));

  EXPECT_THAT(AskAll(calls_, {"a", "b"}),
              ::testing::Each(HasReason(Reason::kWrongServer)));
}

TEST_F(PlacementStageTest, CallsThatWereMadeHereAreAnsweredHere) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  const PlacementStage stage(
      &known_, [](absl::string_view, const Caller&, const CallId& id) {
        return id.sequence == 7;
      });
  const auto admit = [&]<typename Request>(Request, uint64_t sequence) {
    auto request = About<Request>({"b"});
    SetCallId({"c", sequence}, request);
    return stage.Admit(StagedCall(request, Caller()));
  };

  EXPECT_OK(admit(PushRequest(), 7));
  EXPECT_OK(admit(DeleteRequest(), 7));
  EXPECT_THAT(admit(PushPullRequest(), 7), HasReason(Reason::kOutcomeUnknown));
  EXPECT_THAT(admit(PushRequest(), 8), HasReason(Reason::kWrongServer));
  EXPECT_THAT(admit(DeleteRequest(), 8), HasReason(Reason::kWrongServer));
}

// Its caller may think that every server holds it.
TEST_F(PlacementStageTest, NamespaceThatIsNotHereIsTheStoresToRefuse) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  const PlacementStage stage(
      &known_, {}, [](absl::string_view) { return std::optional<bool>(); });
  const auto admit = [&](const auto& request) {
    return stage.Admit(StagedCall(request, Caller()));
  };

  EXPECT_OK(admit(About<InitRequest>({"b"})));
  EXPECT_OK(admit(About<PushRequest>({"b"})));
  EXPECT_THAT(admit(About<PullRequest>({"b"})),
              HasReason(Reason::kWrongServer));
}

TEST_F(PlacementStageTest, CallsThatNameNoKeysAreTaken) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));

  EXPECT_OK(stage_.Admit(StagedCall(ListRequest(), Caller())));
  EXPECT_OK(stage_.Admit(StagedCall(SetRuleRequest(), Caller())));
}

TEST_F(PlacementStageTest, TheHomeAloneSaysWhatSnapshotsThereAre) {
  const auto admit_all = [&] {
    DescribeSnapshotRequest describe;
    describe.mutable_at()->set_latest(true);
    CreateSnapshotRequest reserve;
    reserve.set_step(CreateSnapshotRequest::RESERVE);
    return std::vector<absl::Status>{
        stage_.Admit(StagedCall(describe, Caller())),
        stage_.Admit(StagedCall(reserve, Caller())),
        stage_.Admit(StagedCall(CreateSnapshotRequest(), Caller())),
        stage_.Admit(StagedCall(LeaseSnapshotRequest(), Caller())),
        stage_.Admit(StagedCall(ListSnapshotsRequest(), Caller())),
        stage_.Admit(StagedCall(DeleteSnapshotRequest(), Caller()))};
  };
  const ClusterPlacement placement = TwoServers(1);
  const uint32_t home = OwnerOf(placement, "", "");
  ASSERT_OK(known_.Set(placement, placement.servers[home].name));
  EXPECT_THAT(admit_all(), Each(IsOk()));

  ASSERT_OK(known_.Set(placement, placement.servers[1 - home].name));
  EXPECT_THAT(admit_all(), Each(HasReason(Reason::kWrongServer)));
  // Shares are every server's.
  CreateSnapshotRequest prepare;
  prepare.set_step(CreateSnapshotRequest::PREPARE);
  EXPECT_OK(stage_.Admit(StagedCall(prepare, Caller())));
  DeleteSnapshotRequest drop;
  drop.add_uids(7);
  EXPECT_OK(stage_.Admit(StagedCall(drop, Caller())));
  DescribeSnapshotRequest describe;
  describe.mutable_at()->set_uid(7);
  EXPECT_OK(stage_.Admit(StagedCall(describe, Caller())));
}

TEST_F(PlacementStageTest, AShareIsTakenWhereAllKeysAreThatTheServerOwns) {
  KnownPlacement known("a");
  const PlacementStage stage(&known);
  CreateSnapshotRequest prepare;
  prepare.set_step(CreateSnapshotRequest::PREPARE);
  const auto admit = [&] { return stage.Admit(StagedCall(prepare, Caller())); };
  EXPECT_THAT(admit(), StatusIs(absl::StatusCode::kUnavailable));
  ClusterPlacement placement = TwoServers(1);
  placement.lost.push_back({.server = "c", .partitions = {0}});
  ASSERT_OK(known.Set(placement, "a"));
  EXPECT_THAT(admit(), HasReason(Reason::kKeyNotRestored));
  ASSERT_OK(known.Set(TwoServers(2), "a"));
  EXPECT_OK(admit());
}

TEST_F(PlacementStageTest, ASnapshotIsNamedOfServersThatTheHomeKnows) {
  const ClusterPlacement placement = TwoServers(1);
  const uint32_t home = OwnerOf(placement, "", "");
  ASSERT_OK(known_.Set(placement, placement.servers[home].name));
  CreateSnapshotRequest name;
  name.set_step(CreateSnapshotRequest::NAME);
  name.add_shares()->set_server("a");
  name.add_shares()->set_server("b");
  EXPECT_OK(stage_.Admit(StagedCall(name, Caller())));
  name.add_shares()->set_server("c");
  EXPECT_THAT(stage_.Admit(StagedCall(name, Caller())),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(PlacementStageTest, ListIsOfThePlacementThatItNames) {
  ASSERT_OK(known_.Set(TwoServers(1), "a"));
  // Keys come while it is made.
  int num_lists = 0;
  const auto list = [&]() -> absl::StatusOr<ListReply> {
    if (++num_lists > 1) {
      return testing::PageOfKeys({KeyOfServer("a"), KeyOfServer("b")});
    }
    EXPECT_OK(known_.Set(TwoServers(2), "a"));
    return ListReply();
  };

  ASSERT_OK_AND_ASSIGN(const ListReply reply, stage_.List(ListRequest(), list));

  ASSERT_EQ(reply.keys_size(), 1);
  EXPECT_EQ(reply.keys(0).key(), KeyOfServer("a"));
  EXPECT_EQ(reply.placement_version(), 2u);
}

}  // namespace placement_stage_test
}  // namespace tensorkv
