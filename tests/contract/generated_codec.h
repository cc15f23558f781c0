// Calls with tensors and their replies by the generated code, for tests: what
// the hand-written codec is compared with, and the easiest way to make
// messages.
//
// FromProto checks all that a message alone can show to be wrong, ToProto fills
// an empty message.
//
// Errors of every FromProto: InvalidArgument (malformed) · Unimplemented (a
// field, payload location or encoding that this build lacks).

#ifndef TENSORKV_TESTS_CONTRACT_GENERATED_CODEC_H_
#define TENSORKV_TESTS_CONTRACT_GENERATED_CODEC_H_

#include <variant>

#include "absl/status/statusor.h"
#include "contract/proto_codec.h"
#include "contract/requests.h"
#include "tensorkv/v1/service.pb.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv {

// Messages with payload are passed as rvalues: their tensors take the payloads
// over, each its own, without a copy. So a tensor keeps nothing but its bytes
// alive, however large the message around it was.
absl::StatusOr<Tensor> FromProto(v1::Tensor&& proto);
void ToProto(const Tensor& tensor, v1::Tensor* proto);

absl::StatusOr<InitRequest> FromProto(v1::InitRequest&& proto);
void ToProto(const InitRequest& request, v1::InitRequest* proto);

absl::StatusOr<PushRequest> FromProto(v1::PushRequest&& proto);
void ToProto(const PushRequest& request, v1::PushRequest* proto);

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

absl::StatusOr<GetStateRequest> FromProto(const v1::GetStateRequest& proto);
void ToProto(const GetStateRequest& request, v1::GetStateRequest* proto);
absl::StatusOr<PullReply> FromProto(v1::GetStateResponse&& proto);
void ToProto(const PullReply& reply, v1::GetStateResponse* proto);

// These are for streams. Tensors that FromProto gives have no data, but ids of
// rows do; ToProto leaves the data out, so tensors with data may be passed.
struct InitManifest {
  std::variant<InitRequest, SetStateRequest> request;
  Stripe stripe;
};
struct PushManifest {
  std::variant<PushRequest, PushPullRequest> request;
  Stripe stripe;
};
absl::StatusOr<InitManifest> FromProto(v1::InitManifest&& proto);
void ToProto(const InitManifest& manifest, v1::InitManifest* proto);
absl::StatusOr<PushManifest> FromProto(v1::PushManifest&& proto);
void ToProto(const PushManifest& manifest, v1::PushManifest* proto);
absl::StatusOr<PullReply> FromProto(v1::PullManifest&& proto);
void ToProto(const PullReply& reply, v1::PullManifest* proto);

}  // namespace tensorkv

#endif  // TENSORKV_TESTS_CONTRACT_GENERATED_CODEC_H_
