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
#include "contract/placement.h"
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

absl::StatusOr<PushPullRequest> FromProto(v1::PushPullRequest&& proto);
void ToProto(const PushPullRequest& request, v1::PushPullRequest* proto);
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

absl::StatusOr<SetStateRequest> FromProto(v1::SetStateRequest&& proto);
void ToProto(const SetStateRequest& request, v1::SetStateRequest* proto);
InitReply FromProto(const v1::SetStateResponse& proto);
void ToProto(const InitReply& reply, v1::SetStateResponse* proto);

absl::StatusOr<GetStateRequest> FromProto(const v1::GetStateRequest& proto);
void ToProto(const GetStateRequest& request, v1::GetStateRequest* proto);
absl::StatusOr<PullReply> FromProto(v1::GetStateResponse&& proto);
void ToProto(const PullReply& reply, v1::GetStateResponse* proto);

// These are for streams. Tensors that FromProto gives have no data, but ids of
// rows do; ToProto leaves the data out, so tensors with data may be passed.
// Errors also: InvalidArgument for a manifest with data, and for a stripe that
// is none.
absl::StatusOr<InitManifest> FromProto(v1::InitManifest&& proto);
void ToProto(const InitManifest& manifest, v1::InitManifest* proto);
absl::StatusOr<PushManifest> FromProto(v1::PushManifest&& proto);
void ToProto(const PushManifest& manifest, v1::PushManifest* proto);
absl::StatusOr<PullStreamRequest> FromProto(v1::PullStreamRequest&& proto);
void ToProto(const PullStreamRequest& request, v1::PullStreamRequest* proto);
absl::StatusOr<PullReply> FromProto(v1::PullManifest&& proto);
void ToProto(const PullReply& reply, v1::PullManifest* proto);

// These are for messages that are parts of others, or of files.
Multipliers FromProto(const v1::Multipliers& proto);
void ToProto(const Multipliers& multipliers, v1::Multipliers* proto);

RuleSpec FromProto(const v1::Rule& proto);
void ToProto(const RuleSpec& rule, v1::Rule* proto);

Mode FromProto(v1::Mode proto);

// Choices that only newer servers know become kUnknown.
absl::StatusOr<NamespaceConfig> FromProto(const v1::NamespaceConfig& proto);
void ToProto(const NamespaceConfig& config, v1::NamespaceConfig* proto);
// Returns the configuration that a request has. Errors: also InvalidArgument
// for a choice that is unknown here.
absl::StatusOr<NamespaceConfig> KnownConfig(const v1::NamespaceConfig& proto);

// Errors: InvalidArgument for a number that is unknown here.
absl::StatusOr<OnExisting> DecodeOnExisting(v1::OnExisting proto);
v1::OnExisting EncodeOnExisting(OnExisting on_existing);

void ToProto(const ClusterServer& server, v1::ClusterServer* proto);

absl::StatusOr<ClusterPlacement> FromProto(const v1::ClusterPlacement& proto);
void ToProto(const ClusterPlacement& placement, v1::ClusterPlacement* proto);

// Checks that the keys of a reply have shapes. Errors: InvalidArgument, naming
// the key.
absl::Status CheckShapes(
    const google::protobuf::RepeatedPtrField<v1::KeyStatus>& keys);

// FromProto and ToProto for code that works for every method: with the type of
// the result named. The message of a call without tensors is its own value.
template <typename Value, typename Message>
absl::StatusOr<Value> ValueOf(Message&& proto) {
  if constexpr (std::is_same_v<Value, std::remove_cvref_t<Message>>) {
    return std::forward<Message>(proto);
  } else {
    return FromProto(std::forward<Message>(proto));
  }
}
template <typename Message, typename Value>
Message MessageOf(const Value& value) {
  Message proto;
  ToProto(value, &proto);
  return proto;
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_PROTO_CODEC_H_
