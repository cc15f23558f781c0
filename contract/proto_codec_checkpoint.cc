#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"
#include "google/protobuf/timestamp.pb.h"

namespace tensorkv {

CheckpointStatus FromProto(const v1::CheckpointStatus& proto) {
  return {.name = proto.name(),
          .create_time = absl::FromUnixSeconds(proto.create_time().seconds()) +
                         absl::Nanoseconds(proto.create_time().nanos()),
          .bytes = proto.bytes(),
          .num_keys = proto.num_keys(),
          .namespaces = {proto.namespaces().begin(), proto.namespaces().end()},
          .sequence = proto.sequence(),
          .automatic = proto.automatic(),
          .written_bytes = proto.written_bytes()};
}

void ToProto(const CheckpointStatus& status, v1::CheckpointStatus* proto) {
  proto->set_name(status.name);
  const int64_t nanoseconds = absl::ToUnixNanos(status.create_time);
  int64_t seconds = nanoseconds / 1'000'000'000;
  if (nanoseconds % 1'000'000'000 < 0) --seconds;
  proto->mutable_create_time()->set_seconds(seconds);
  proto->mutable_create_time()->set_nanos(
      static_cast<int32_t>(nanoseconds - seconds * 1'000'000'000));
  proto->set_bytes(status.bytes);
  proto->set_num_keys(status.num_keys);
  proto->mutable_namespaces()->Add(status.namespaces.begin(),
                                   status.namespaces.end());
  proto->set_sequence(status.sequence);
  proto->set_automatic(status.automatic);
  proto->set_written_bytes(status.written_bytes);
}

absl::StatusOr<SaveCheckpointRequest> FromProto(
    const v1::SaveCheckpointRequest& proto) {
  return SaveCheckpointRequest{
      .name = proto.name(),
      .namespaces = {proto.namespaces().begin(), proto.namespaces().end()}};
}

void ToProto(const SaveCheckpointRequest& request,
             v1::SaveCheckpointRequest* proto) {
  proto->set_name(request.name);
  proto->mutable_namespaces()->Add(request.namespaces.begin(),
                                   request.namespaces.end());
}

absl::StatusOr<CheckpointStatus> FromProto(
    const v1::SaveCheckpointResponse& proto) {
  return FromProto(proto.checkpoint());
}

void ToProto(const CheckpointStatus& status,
             v1::SaveCheckpointResponse* proto) {
  ToProto(status, proto->mutable_checkpoint());
}

absl::StatusOr<RestoreCheckpointRequest> FromProto(
    const v1::RestoreCheckpointRequest& proto) {
  RestoreCheckpointRequest request;
  request.name = proto.name();
  request.namespaces = {proto.namespaces().begin(), proto.namespaces().end()};
  request.as_namespace = proto.as_namespace();
  ASSIGN_OR_RETURN(request.on_existing, DecodeOnExisting(proto.on_existing()));
  request.uid = proto.uid();
  return request;
}

void ToProto(const RestoreCheckpointRequest& request,
             v1::RestoreCheckpointRequest* proto) {
  proto->set_name(request.name);
  proto->mutable_namespaces()->Add(request.namespaces.begin(),
                                   request.namespaces.end());
  proto->set_as_namespace(request.as_namespace);
  proto->set_on_existing(EncodeOnExisting(request.on_existing));
  proto->set_uid(request.uid);
}

absl::StatusOr<CheckpointStatus> FromProto(
    const v1::RestoreCheckpointResponse& proto) {
  return FromProto(proto.checkpoint());
}

void ToProto(const CheckpointStatus& status,
             v1::RestoreCheckpointResponse* proto) {
  ToProto(status, proto->mutable_checkpoint());
}

absl::StatusOr<ListCheckpointsRequest> FromProto(
    const v1::ListCheckpointsRequest& proto) {
  return ListCheckpointsRequest{.page_size = proto.page_size(),
                                .page_token = proto.page_token()};
}

void ToProto(const ListCheckpointsRequest& request,
             v1::ListCheckpointsRequest* proto) {
  proto->set_page_size(request.page_size);
  proto->set_page_token(request.page_token);
}

absl::StatusOr<ListCheckpointsReply> FromProto(
    const v1::ListCheckpointsResponse& proto) {
  ListCheckpointsReply reply;
  reply.next_page_token = proto.next_page_token();
  for (const v1::CheckpointStatus& status : proto.checkpoints()) {
    reply.checkpoints.push_back(FromProto(status));
  }
  return reply;
}

void ToProto(const ListCheckpointsReply& reply,
             v1::ListCheckpointsResponse* proto) {
  for (const CheckpointStatus& status : reply.checkpoints) {
    ToProto(status, proto->add_checkpoints());
  }
  proto->set_next_page_token(reply.next_page_token);
}

absl::StatusOr<DeleteCheckpointRequest> FromProto(
    const v1::DeleteCheckpointRequest& proto) {
  return DeleteCheckpointRequest{.name = proto.name()};
}

void ToProto(const DeleteCheckpointRequest& request,
             v1::DeleteCheckpointRequest* proto) {
  proto->set_name(request.name);
}

absl::StatusOr<VerifyCheckpointRequest> FromProto(
    const v1::VerifyCheckpointRequest& proto) {
  return VerifyCheckpointRequest{.name = proto.name()};
}

void ToProto(const VerifyCheckpointRequest& request,
             v1::VerifyCheckpointRequest* proto) {
  proto->set_name(request.name);
}

absl::StatusOr<CheckpointStatus> FromProto(
    const v1::VerifyCheckpointResponse& proto) {
  return FromProto(proto.checkpoint());
}

void ToProto(const CheckpointStatus& status,
             v1::VerifyCheckpointResponse* proto) {
  ToProto(status, proto->mutable_checkpoint());
}

}  // namespace tensorkv
