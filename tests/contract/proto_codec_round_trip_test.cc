#include "contract/proto_codec.h"
#include "tests/contract/random_requests.h"
#include "tests/contract/request_equality.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::RandomRequests;

template <typename Proto>
auto Decode(Proto proto) {
  return FromProto(std::move(proto));
}

template <typename T, typename Message>
struct Translation {
  using Value = T;
  using Proto = Message;
};

template <typename Translation>
class RoundTripTest : public ::testing::Test {};

using Translations = ::testing::Types<
    Translation<Tensor, v1::Tensor>, Translation<InitRequest, v1::InitRequest>,
    Translation<InitReply, v1::InitResponse>,
    Translation<PushRequest, v1::PushRequest>,
    Translation<PushReply, v1::PushResponse>,
    Translation<PullRequest, v1::PullRequest>,
    Translation<PullReply, v1::PullResponse>,
    Translation<PushRequest, v1::PushPullRequest>,
    Translation<PullReply, v1::PushPullResponse>,
    Translation<PushRowsRequest, v1::PushRowsRequest>,
    Translation<PushReply, v1::PushRowsResponse>,
    Translation<PullRowsRequest, v1::PullRowsRequest>,
    Translation<PullReply, v1::PullRowsResponse>,
    Translation<PullStreamRequest, v1::PullStreamRequest>,
    Translation<DeleteRequest, v1::DeleteRequest>,
    Translation<DeleteReply, v1::DeleteResponse>,
    Translation<ListRequest, v1::ListRequest>,
    Translation<ListReply, v1::ListResponse>,
    Translation<StatRequest, v1::StatRequest>,
    Translation<StatReply, v1::StatResponse>, Translation<RuleSpec, v1::Rule>,
    Translation<CreateNamespaceRequest, v1::CreateNamespaceRequest>,
    Translation<CreateNamespaceReply, v1::CreateNamespaceResponse>,
    Translation<ListNamespacesRequest, v1::ListNamespacesRequest>,
    Translation<ListNamespacesReply, v1::ListNamespacesResponse>,
    Translation<UnsetRuleRequest, v1::UnsetRuleRequest>,
    Translation<NamespaceStatus, v1::NamespaceStatus>,
    Translation<NamespaceStatus, v1::DescribeNamespaceResponse>,
    Translation<RuleSpec, v1::SetHyperparametersResponse>,
    Translation<SetRuleRequest, v1::SetRuleRequest>,
    Translation<SetHyperparametersRequest, v1::SetHyperparametersRequest>,
    Translation<WorkerStatus, v1::WorkerStatus>,
    Translation<JoinRequest, v1::JoinRequest>,
    Translation<JoinReply, v1::JoinResponse>,
    Translation<KeepAliveRequest, v1::KeepAliveRequest>,
    Translation<KeepAliveReply, v1::KeepAliveResponse>,
    Translation<LeaveRequest, v1::LeaveRequest>,
    Translation<BarrierRequest, v1::BarrierRequest>,
    Translation<CheckpointStatus, v1::CheckpointStatus>,
    Translation<CheckpointStatus, v1::SaveCheckpointResponse>,
    Translation<SaveCheckpointRequest, v1::SaveCheckpointRequest>,
    Translation<CheckpointStatus, v1::RestoreCheckpointResponse>,
    Translation<RestoreCheckpointRequest, v1::RestoreCheckpointRequest>,
    Translation<ListCheckpointsReply, v1::ListCheckpointsResponse>,
    Translation<DeleteCheckpointRequest, v1::DeleteCheckpointRequest>,
    Translation<VerifyCheckpointRequest, v1::VerifyCheckpointRequest>,
    Translation<ServerStatus, v1::DescribeServerResponse>,
    Translation<DescribeClusterReply, v1::DescribeClusterResponse>,
    Translation<ResizeClusterRequest, v1::ResizeClusterRequest>,
    Translation<ResizeClusterReply, v1::ResizeClusterResponse>,
    Translation<MovePartitionsRequest, v1::MovePartitionsRequest>>;
TYPED_TEST_SUITE(RoundTripTest, Translations);

TYPED_TEST(RoundTripTest, RandomValuesSurviveTheWire) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    typename TypeParam::Value value;
    RandomRequests(seed).Draw(value);
    typename TypeParam::Proto sent;
    typename TypeParam::Proto received;

    ToProto(value, &sent);
    ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
    const absl::StatusOr<typename TypeParam::Value> decoded = Decode(received);

    ASSERT_OK(decoded);
    EXPECT_TRUE(*decoded == value) << "seed " << seed;
  }
}

TYPED_TEST(RoundTripTest, DefaultValuesSurviveTheWire) {
  const typename TypeParam::Value value;
  typename TypeParam::Proto proto;

  ToProto(value, &proto);
  const absl::StatusOr<typename TypeParam::Value> decoded = Decode(proto);

  ASSERT_OK(decoded);
  EXPECT_TRUE(*decoded == value);
}

}  // namespace
}  // namespace tensorkv
