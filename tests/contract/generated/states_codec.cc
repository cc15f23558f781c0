#include <utility>

#include "base/status_macros.h"
#include "tests/contract/generated/fields.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv {

absl::StatusOr<SetStateRequest> DecodeSetStateRequest(
    v1::SetStateRequest& proto, TensorDecoder decode) {
  SetStateRequest request;
  request.name_space = proto.namespace_();
  request.call_id = CallIdIn(proto);
  request.namespace_uid = proto.namespace_uid();
  const auto decode_entry =
      [decode](v1::SetStateEntry& entry) -> absl::StatusOr<SetStateEntry> {
    ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(entry, decode));
    return SetStateEntry{entry.key(), entry.state(), std::move(tensor)};
  };
  ASSIGN_OR_RETURN(request.entries,
                   DecodeAll(*proto.mutable_entries(), decode_entry));
  return request;
}

void EncodeSetStateRequest(const SetStateRequest& request, TensorEncoder encode,
                           v1::SetStateRequest* proto) {
  proto->set_namespace_(request.name_space);
  if (request.call_id) SetCallId(*request.call_id, *proto);
  proto->set_namespace_uid(request.namespace_uid);
  for (const SetStateEntry& entry : request.entries) {
    v1::SetStateEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_state(entry.state);
    encode(entry.tensor, out->mutable_tensor());
  }
}

absl::StatusOr<SetStateRequest> FromProto(v1::SetStateRequest&& proto) {
  return DecodeSetStateRequest(proto, DecodeWithData);
}

void ToProto(const SetStateRequest& request, v1::SetStateRequest* proto) {
  EncodeSetStateRequest(request, EncodeWithData, proto);
}

absl::StatusOr<GetStateRequest> FromProto(const v1::GetStateRequest& proto) {
  GetStateRequest request;
  request.name_space = proto.namespace_();
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.worker, DecodeWorkerIfPresent(proto));
  request.max_reply_bytes = proto.max_reply_bytes();
  request.ticket_from_bytes = proto.ticket_from_bytes();
  request.entries.reserve(proto.entries_size());
  for (const v1::GetStateEntry& entry : proto.entries()) {
    request.entries.push_back({entry.key(), entry.state()});
  }
  return request;
}

void ToProto(const GetStateRequest& request, v1::GetStateRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorkerIfPresent(request.worker, proto);
  proto->set_max_reply_bytes(request.max_reply_bytes);
  proto->set_ticket_from_bytes(request.ticket_from_bytes);
  for (const GetStateEntry& entry : request.entries) {
    v1::GetStateEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_state(entry.state);
  }
}

absl::StatusOr<PullReply> FromProto(v1::GetStateResponse&& proto) {
  return DecodeReply(proto);
}

void ToProto(const PullReply& reply, v1::GetStateResponse* proto) {
  EncodeReply(reply, proto);
}

}  // namespace tensorkv
