#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "tests/contract/generated/fields.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv {
namespace {

using google::protobuf::RepeatedPtrField;

// Decodes what values are to be converted to; kUnknown if nothing.
template <typename Proto>
absl::StatusOr<DType> DecodeDTypeIfPresent(const Proto& proto) {
  if (proto.dtype() == v1::DTYPE_UNSPECIFIED) return DType::kUnknown;
  return DTypeFromNumber(proto.dtype());
}

absl::StatusOr<PushEntry> DecodePushEntry(v1::PushEntry& proto,
                                          TensorDecoder decode) {
  PushEntry entry;
  entry.key = proto.key();
  entry.skip = proto.skip();
  if (entry.skip) {
    if (!proto.has_tensor() && !proto.has_encoding() && !proto.has_delta()) {
      return entry;
    }
    return absl::InvalidArgumentError(
        "tensor: expected none with skip, got one");
  }
  if (proto.has_weight()) entry.weight = proto.weight();
  if (proto.has_delta()) {
    auto delta = MakeRefCounted<PushedDelta>();
    delta->base = proto.delta().base();
    delta->digest = proto.delta().digest();
    entry.delta = std::move(delta);
  }
  RETURN_IF_ERROR(DecodeContribution(proto, decode, &entry));
  return entry;
}

}  // namespace

// --- With the tensors' data or without --------------------------------------

absl::StatusOr<InitRequest> DecodeInitRequest(v1::InitRequest& proto,
                                              TensorDecoder decode) {
  InitRequest request;
  request.name_space = proto.namespace_();
  request.call_id = CallIdIn(proto);
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.on_existing, DecodeOnExisting(proto.on_existing()));
  if (proto.has_publish_as()) request.publish_as = proto.publish_as();
  const auto decode_entry =
      [decode](v1::InitEntry& entry) -> absl::StatusOr<InitEntry> {
    ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(entry, decode));
    return InitEntry{entry.key(), std::move(tensor)};
  };
  ASSIGN_OR_RETURN(request.entries,
                   DecodeAll(*proto.mutable_entries(), decode_entry));
  return request;
}

void EncodeInitRequest(const InitRequest& request, TensorEncoder encode,
                       v1::InitRequest* proto) {
  proto->set_namespace_(request.name_space);
  if (request.call_id) SetCallId(*request.call_id, *proto);
  proto->set_namespace_uid(request.namespace_uid);
  proto->set_on_existing(EncodeOnExisting(request.on_existing));
  if (request.publish_as) *proto->mutable_publish_as() = *request.publish_as;
  for (const InitEntry& entry : request.entries) {
    v1::InitEntry* out = proto->add_entries();
    out->set_key(entry.key);
    encode(entry.tensor, out->mutable_tensor());
  }
}

absl::StatusOr<PushRequest> DecodePushRequest(v1::PushRequest& proto,
                                              TensorDecoder decode) {
  PushRequest request;
  request.name_space = proto.namespace_();
  request.call_id = CallIdIn(proto);
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.worker, DecodeWorkerIfPresent(proto));
  request.step = proto.step();
  if (proto.has_publish_as()) request.publish_as = proto.publish_as();
  request.with_tokens = proto.with_tokens();
  const auto decode_entry = [decode](v1::PushEntry& entry) {
    return DecodePushEntry(entry, decode);
  };
  ASSIGN_OR_RETURN(request.entries,
                   DecodeAll(*proto.mutable_entries(), decode_entry));
  return request;
}

void EncodePushRequest(const PushRequest& request, TensorEncoder encode,
                       v1::PushRequest* proto) {
  proto->set_namespace_(request.name_space);
  if (request.call_id) SetCallId(*request.call_id, *proto);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorkerIfPresent(request.worker, proto);
  proto->set_step(request.step);
  if (request.publish_as) *proto->mutable_publish_as() = *request.publish_as;
  proto->set_with_tokens(request.with_tokens);
  for (const PushEntry& entry : request.entries) {
    v1::PushEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_skip(entry.skip);
    if (entry.skip) continue;
    if (entry.weight != 1) out->set_weight(entry.weight);
    if (entry.delta) {
      out->mutable_delta()->set_base(entry.delta->base);
      out->mutable_delta()->set_digest(entry.delta->digest);
    }
    EncodeContribution(entry, encode, out);
  }
}

absl::StatusOr<PushPullRequest> DecodePushPullRequest(
    v1::PushPullRequest& proto, TensorDecoder decode) {
  if (!proto.has_push()) return absl::InvalidArgumentError("push: missing");
  ASSIGN_OR_RETURN(PushRequest push,
                   DecodePushRequest(*proto.mutable_push(), decode));
  PushPullRequest request = {std::move(push)};
  request.max_reply_bytes = proto.max_reply_bytes();
  request.ticket_from_bytes = proto.ticket_from_bytes();
  ASSIGN_OR_RETURN(request.dtype, DecodeDTypeIfPresent(proto));
  return request;
}

void EncodePushPullRequest(const PushPullRequest& request, TensorEncoder encode,
                           v1::PushPullRequest* proto) {
  proto->set_max_reply_bytes(request.max_reply_bytes);
  proto->set_ticket_from_bytes(request.ticket_from_bytes);
  proto->set_dtype(static_cast<v1::DType>(request.dtype));
  EncodePushRequest(request, encode, proto->mutable_push());
}

RefPtr<const ValueChange> DecodeChangeIfPresent(const v1::Value& proto) {
  if (!proto.has_change()) return nullptr;
  auto change = MakeRefCounted<ValueChange>();
  change->token = proto.change().token();
  change->unchanged = proto.change().unchanged();
  if (proto.change().has_delta()) {
    change->delta = Delta{.digest = proto.change().delta().digest()};
  }
  return change;
}

void EncodeChangeIfPresent(const Value& value, v1::Value* proto) {
  if (!value.change) return;
  v1::ValueChange& change = *proto->mutable_change();
  change.set_token(value.change->token);
  change.set_unchanged(value.change->unchanged);
  if (!value.change->delta) return;
  change.mutable_delta()->set_digest(value.change->delta->digest);
}

absl::StatusOr<PullReply> DecodeValues(RepeatedPtrField<v1::Value>& protos,
                                       TensorDecoder decode) {
  const auto decode_value =
      [decode](v1::Value& proto) -> absl::StatusOr<Value> {
    ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(proto, decode));
    return Value{proto.version(), std::move(tensor), proto.num_contributions(),
                 DecodeChangeIfPresent(proto)};
  };
  PullReply reply;
  ASSIGN_OR_RETURN(reply.values, DecodeAll(protos, decode_value));
  return reply;
}

void EncodeValues(const PullReply& reply, TensorEncoder encode,
                  RepeatedPtrField<v1::Value>* protos) {
  for (const Value& value : reply.values) {
    v1::Value* proto = protos->Add();
    proto->set_version(value.version);
    proto->set_num_contributions(value.num_contributions);
    EncodeChangeIfPresent(value, proto);
    encode(value.tensor, proto->mutable_tensor());
  }
}

PushReply DecodeResults(const RepeatedPtrField<v1::PushResult>& protos) {
  PushReply reply;
  reply.results.reserve(protos.size());
  for (const v1::PushResult& result : protos) {
    reply.results.push_back(
        {result.version(), result.step(), result.repeated(), result.token()});
  }
  return reply;
}

void EncodeResults(const PushReply& reply,
                   RepeatedPtrField<v1::PushResult>* protos) {
  for (const PushResult& result : reply.results) {
    v1::PushResult* out = protos->Add();
    out->set_version(result.version);
    out->set_step(result.step);
    out->set_repeated(result.repeated);
    out->set_token(result.token);
  }
}

// --- Init -------------------------------------------------------------------

absl::StatusOr<InitRequest> FromProto(v1::InitRequest&& proto) {
  return DecodeInitRequest(proto, DecodeWithData);
}

void ToProto(const InitRequest& request, v1::InitRequest* proto) {
  EncodeInitRequest(request, EncodeWithData, proto);
}

// --- Push, Pull, PushPull ---------------------------------------------------

absl::StatusOr<PushRequest> FromProto(v1::PushRequest&& proto) {
  return DecodePushRequest(proto, DecodeWithData);
}

void ToProto(const PushRequest& request, v1::PushRequest* proto) {
  EncodePushRequest(request, EncodeWithData, proto);
}

absl::StatusOr<PullRequest> FromProto(const v1::PullRequest& proto) {
  PullRequest request;
  request.name_space = proto.namespace_();
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.worker, DecodeWorkerIfPresent(proto));
  request.wait_for_keys = proto.wait_for_keys();
  request.max_reply_bytes = proto.max_reply_bytes();
  request.ticket_from_bytes = proto.ticket_from_bytes();
  ASSIGN_OR_RETURN(request.dtype, DecodeDTypeIfPresent(proto));
  if (proto.has_at()) request.at = proto.at();
  if (proto.has_changes()) request.changes = proto.changes();
  request.entries.reserve(proto.entries_size());
  for (const v1::PullEntry& entry : proto.entries()) {
    request.entries.push_back(
        {entry.key(), entry.min_version(), nullptr, entry.held()});
  }
  return request;
}

void ToProto(const PullRequest& request, v1::PullRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorkerIfPresent(request.worker, proto);
  proto->set_wait_for_keys(request.wait_for_keys);
  proto->set_max_reply_bytes(request.max_reply_bytes);
  proto->set_ticket_from_bytes(request.ticket_from_bytes);
  proto->set_dtype(static_cast<v1::DType>(request.dtype));
  if (request.at) *proto->mutable_at() = *request.at;
  if (request.changes) *proto->mutable_changes() = *request.changes;
  for (const PullEntry& entry : request.entries) {
    v1::PullEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_min_version(entry.min_version);
    out->set_held(entry.held);
  }
}

absl::StatusOr<PullReply> FromProto(v1::PullResponse&& proto) {
  ASSIGN_OR_RETURN(PullReply reply, DecodeReply(proto));
  reply.snapshot_number = proto.snapshot_number();
  return reply;
}

void ToProto(const PullReply& reply, v1::PullResponse* proto) {
  proto->set_snapshot_number(reply.snapshot_number);
  EncodeReply(reply, proto);
}

absl::StatusOr<PushPullRequest> FromProto(v1::PushPullRequest&& proto) {
  return DecodePushPullRequest(proto, DecodeWithData);
}

void ToProto(const PushPullRequest& request, v1::PushPullRequest* proto) {
  EncodePushPullRequest(request, EncodeWithData, proto);
}

absl::StatusOr<PullReply> FromProto(v1::PushPullResponse&& proto) {
  return DecodeReply(proto);
}

void ToProto(const PullReply& reply, v1::PushPullResponse* proto) {
  EncodeReply(reply, proto);
}

}  // namespace tensorkv
