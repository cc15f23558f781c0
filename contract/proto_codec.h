// Translates the contract's messages (proto/tensorkv/v1/) to the values of
// requests.h and back. One file for server and client, so that both mean the
// same by every field.
//
// FromProto checks what a message alone can show to be wrong: enums, dtype,
// shape, payload length, fields this build does not implement. Names, keys,
// hyperparameters and everything that depends on state are the store's to
// check. Messages name the entry, counted from 0: `entry 3 ("fc1.w"): ...`.
// ToProto fills an empty message.
//
// Errors of every FromProto: InvalidArgument (malformed) · Unimplemented (a
// field, payload location or encoding that this build lacks).
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_PROTO_CODEC_H_
#define TENSORKV_CONTRACT_PROTO_CODEC_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {

// Messages with payload are passed as rvalues: their tensors take the payloads
// over, each its own, without a copy. So a tensor keeps nothing but its bytes
// alive, however large the message around it was.
absl::StatusOr<Tensor> FromProto(v1::Tensor&& proto);
void ToProto(const Tensor& tensor, v1::Tensor* proto);

absl::StatusOr<InitRequest> FromProto(v1::InitRequest&& proto);
void ToProto(const InitRequest& request, v1::InitRequest* proto);
InitReply FromProto(const v1::InitResponse& proto);
void ToProto(const InitReply& reply, v1::InitResponse* proto);

absl::StatusOr<PushRequest> FromProto(v1::PushRequest&& proto);
void ToProto(const PushRequest& request, v1::PushRequest* proto);
PushReply FromProto(const v1::PushResponse& proto);
void ToProto(const PushReply& reply, v1::PushResponse* proto);

absl::StatusOr<PullRequest> FromProto(const v1::PullRequest& proto);
void ToProto(const PullRequest& request, v1::PullRequest* proto);
absl::StatusOr<PullReply> FromProto(v1::PullResponse&& proto);
void ToProto(const PullReply& reply, v1::PullResponse* proto);

absl::StatusOr<PushRequest> FromProto(v1::PushPullRequest&& proto);
void ToProto(const PushRequest& request, v1::PushPullRequest* proto);
absl::StatusOr<PullReply> FromProto(v1::PushPullResponse&& proto);
void ToProto(const PullReply& reply, v1::PushPullResponse* proto);

absl::StatusOr<PushRowsRequest> FromProto(v1::PushRowsRequest&& proto);
void ToProto(const PushRowsRequest& request, v1::PushRowsRequest* proto);
PushReply FromProto(const v1::PushRowsResponse& proto);
void ToProto(const PushReply& reply, v1::PushRowsResponse* proto);

absl::StatusOr<PullRowsRequest> FromProto(v1::PullRowsRequest&& proto);
void ToProto(const PullRowsRequest& request, v1::PullRowsRequest* proto);
absl::StatusOr<PullReply> FromProto(v1::PullRowsResponse&& proto);
void ToProto(const PullReply& reply, v1::PullRowsResponse* proto);

// These are for streams. Tensors that FromProto gives have no data, but ids of
// rows do; ToProto leaves the data out, so tensors with data may be passed. A
// request whose entries have rows is that of a PushRows or a PullRows. Errors
// also: InvalidArgument for a manifest with data, and for a stripe that is
// none.
absl::StatusOr<InitManifest> FromProto(v1::InitManifest&& proto);
void ToProto(const InitManifest& manifest, v1::InitManifest* proto);
absl::StatusOr<PushManifest> FromProto(v1::PushManifest&& proto);
void ToProto(const PushManifest& manifest, v1::PushManifest* proto);
absl::StatusOr<PullStreamRequest> FromProto(v1::PullStreamRequest&& proto);
void ToProto(const PullStreamRequest& request, v1::PullStreamRequest* proto);
absl::StatusOr<PullReply> FromProto(v1::PullManifest&& proto);
void ToProto(const PullReply& reply, v1::PullManifest* proto);

absl::StatusOr<DeleteRequest> FromProto(const v1::DeleteRequest& proto);
void ToProto(const DeleteRequest& request, v1::DeleteRequest* proto);
DeleteReply FromProto(const v1::DeleteResponse& proto);
void ToProto(const DeleteReply& reply, v1::DeleteResponse* proto);

ListRequest FromProto(const v1::ListRequest& proto);
void ToProto(const ListRequest& request, v1::ListRequest* proto);
absl::StatusOr<ListReply> FromProto(const v1::ListResponse& proto);
void ToProto(const ListReply& reply, v1::ListResponse* proto);

StatRequest FromProto(const v1::StatRequest& proto);
void ToProto(const StatRequest& request, v1::StatRequest* proto);
absl::StatusOr<StatReply> FromProto(const v1::StatResponse& proto);
void ToProto(const StatReply& reply, v1::StatResponse* proto);

Multipliers FromProto(const v1::Multipliers& proto);
void ToProto(const Multipliers& multipliers, v1::Multipliers* proto);

RuleSpec FromProto(const v1::Rule& proto);
void ToProto(const RuleSpec& rule, v1::Rule* proto);

absl::StatusOr<CreateNamespaceRequest> FromProto(
    const v1::CreateNamespaceRequest& proto);
void ToProto(const CreateNamespaceRequest& request,
             v1::CreateNamespaceRequest* proto);

CreateNamespaceReply FromProto(const v1::CreateNamespaceResponse& proto);
void ToProto(const CreateNamespaceReply& reply,
             v1::CreateNamespaceResponse* proto);

ListNamespacesRequest FromProto(const v1::ListNamespacesRequest& proto);
void ToProto(const ListNamespacesRequest& request,
             v1::ListNamespacesRequest* proto);
absl::StatusOr<ListNamespacesReply> FromProto(
    const v1::ListNamespacesResponse& proto);
void ToProto(const ListNamespacesReply& reply,
             v1::ListNamespacesResponse* proto);

absl::StatusOr<NamespaceStatus> FromProto(const v1::NamespaceStatus& proto);
void ToProto(const NamespaceStatus& status, v1::NamespaceStatus* proto);

DescribeNamespaceRequest FromProto(const v1::DescribeNamespaceRequest& proto);
void ToProto(const DescribeNamespaceRequest& request,
             v1::DescribeNamespaceRequest* proto);
absl::StatusOr<NamespaceStatus> FromProto(
    const v1::DescribeNamespaceResponse& proto);
void ToProto(const NamespaceStatus& status,
             v1::DescribeNamespaceResponse* proto);

DeleteNamespaceRequest FromProto(const v1::DeleteNamespaceRequest& proto);
void ToProto(const DeleteNamespaceRequest& request,
             v1::DeleteNamespaceRequest* proto);

// The requests of TENSORKV_NAMESPACE_METHODS, and those replies that have
// fields.
#define TENSORKV_CODEC(name, ...)                          \
  name##Request FromProto(const v1::name##Request& proto); \
  void ToProto(const name##Request& request, v1::name##Request* proto);
TENSORKV_NAMESPACE_METHODS(TENSORKV_CODEC)
#undef TENSORKV_CODEC
RebalanceNamespaceReply FromProto(const v1::RebalanceNamespaceResponse& proto);
void ToProto(const RebalanceNamespaceReply& reply,
             v1::RebalanceNamespaceResponse* proto);

RuleSpec FromProto(const v1::SetHyperparametersResponse& proto);
void ToProto(const RuleSpec& rule, v1::SetHyperparametersResponse* proto);

// Errors also: InvalidArgument for a duration that is none.
absl::StatusOr<JoinRequest> FromProto(const v1::JoinRequest& proto);
void ToProto(const JoinRequest& request, v1::JoinRequest* proto);
absl::StatusOr<JoinReply> FromProto(const v1::JoinResponse& proto);
void ToProto(const JoinReply& reply, v1::JoinResponse* proto);

absl::StatusOr<KeepAliveRequest> FromProto(const v1::KeepAliveRequest& proto);
void ToProto(const KeepAliveRequest& request, v1::KeepAliveRequest* proto);
absl::StatusOr<KeepAliveReply> FromProto(const v1::KeepAliveResponse& proto);
void ToProto(const KeepAliveReply& reply, v1::KeepAliveResponse* proto);

absl::StatusOr<LeaveRequest> FromProto(const v1::LeaveRequest& proto);
void ToProto(const LeaveRequest& request, v1::LeaveRequest* proto);

absl::StatusOr<BarrierRequest> FromProto(const v1::BarrierRequest& proto);
void ToProto(const BarrierRequest& request, v1::BarrierRequest* proto);

absl::StatusOr<WorkerStatus> FromProto(const v1::WorkerStatus& proto);
void ToProto(const WorkerStatus& status, v1::WorkerStatus* proto);

ServerStatus FromProto(const v1::DescribeServerResponse& proto);
void ToProto(const ServerStatus& status, v1::DescribeServerResponse* proto);

CheckpointStatus FromProto(const v1::CheckpointStatus& proto);
void ToProto(const CheckpointStatus& status, v1::CheckpointStatus* proto);

absl::StatusOr<ClusterPlacement> FromProto(const v1::ClusterPlacement& proto);
void ToProto(const ClusterPlacement& placement, v1::ClusterPlacement* proto);
absl::StatusOr<DescribeClusterReply> FromProto(
    const v1::DescribeClusterResponse& proto);
void ToProto(const DescribeClusterReply& reply,
             v1::DescribeClusterResponse* proto);
ResizeClusterRequest FromProto(const v1::ResizeClusterRequest& proto);
void ToProto(const ResizeClusterRequest& request,
             v1::ResizeClusterRequest* proto);
ResizeClusterReply FromProto(const v1::ResizeClusterResponse& proto);
void ToProto(const ResizeClusterReply& reply, v1::ResizeClusterResponse* proto);
MovePartitionsRequest FromProto(const v1::MovePartitionsRequest& proto);
void ToProto(const MovePartitionsRequest& request,
             v1::MovePartitionsRequest* proto);

SaveCheckpointRequest FromProto(const v1::SaveCheckpointRequest& proto);
void ToProto(const SaveCheckpointRequest& request,
             v1::SaveCheckpointRequest* proto);
CheckpointStatus FromProto(const v1::SaveCheckpointResponse& proto);
void ToProto(const CheckpointStatus& status, v1::SaveCheckpointResponse* proto);

absl::StatusOr<RestoreCheckpointRequest> FromProto(
    const v1::RestoreCheckpointRequest& proto);
void ToProto(const RestoreCheckpointRequest& request,
             v1::RestoreCheckpointRequest* proto);
CheckpointStatus FromProto(const v1::RestoreCheckpointResponse& proto);
void ToProto(const CheckpointStatus& status,
             v1::RestoreCheckpointResponse* proto);

ListCheckpointsReply FromProto(const v1::ListCheckpointsResponse& proto);
void ToProto(const ListCheckpointsReply& reply,
             v1::ListCheckpointsResponse* proto);

DeleteCheckpointRequest FromProto(const v1::DeleteCheckpointRequest& proto);
void ToProto(const DeleteCheckpointRequest& request,
             v1::DeleteCheckpointRequest* proto);

VerifyCheckpointRequest FromProto(const v1::VerifyCheckpointRequest& proto);
void ToProto(const VerifyCheckpointRequest& request,
             v1::VerifyCheckpointRequest* proto);
CheckpointStatus FromProto(const v1::VerifyCheckpointResponse& proto);
void ToProto(const CheckpointStatus& status,
             v1::VerifyCheckpointResponse* proto);

// Values without fields have messages without fields, which say nothing.
template <typename Value>
requires std::is_empty_v<Value>
void ToProto(const Value&, google::protobuf::Message*) {}

// FromProto with the type of its result named, for code that works for every
// message.
template <typename Value, typename Message>
absl::StatusOr<Value> ValueOf(Message&& proto) {
  if constexpr (std::is_empty_v<Value>) {
    return Value();
  } else {
    return FromProto(std::forward<Message>(proto));
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_PROTO_CODEC_H_
