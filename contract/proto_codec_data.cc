#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"

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
    if (!proto.has_tensor() && !proto.has_encoding()) return entry;
    return absl::InvalidArgumentError(
        "tensor: expected none with skip, got one");
  }
  entry.weight = proto.weight();
  RETURN_IF_ERROR(DecodeContribution(proto, decode, &entry));
  return entry;
}

std::vector<std::string> DecodeStrings(
    const RepeatedPtrField<std::string>& protos) {
  return {protos.begin(), protos.end()};
}

void EncodeStrings(const std::vector<std::string>& strings,
                   RepeatedPtrField<std::string>* protos) {
  protos->Add(strings.begin(), strings.end());
}

absl::StatusOr<KeyStatus> DecodeKeyStatus(const v1::KeyStatus& proto) {
  KeyStatus status;
  status.key = proto.key();
  // One of a newer server does not spoil the answer about the other keys.
  status.dtype = DTypeFromNumber(proto.dtype()).value_or(DType::kUnknown);
  ASSIGN_OR_RETURN(status.shape, DecodeShape(proto.shape()));
  status.version = proto.version();
  status.value_bytes = proto.value_bytes();
  status.state_bytes = proto.state_bytes();
  status.rule = FromProto(proto.rule());
  status.update_count = proto.update_count();
  if (proto.has_multipliers()) {
    status.multipliers = FromProto(proto.multipliers());
  }
  status.learning_rate = proto.learning_rate();
  status.weight_decay = proto.weight_decay();
  status.states = DecodeStrings(proto.states());
  if (proto.has_digest()) status.digest = proto.digest();
  return status;
}

void EncodeKeyStatus(const KeyStatus& status, v1::KeyStatus* proto) {
  proto->set_key(status.key);
  proto->set_dtype(static_cast<v1::DType>(status.dtype));
  EncodeShape(status.shape, proto->mutable_shape());
  proto->set_version(status.version);
  proto->set_value_bytes(status.value_bytes);
  proto->set_state_bytes(status.state_bytes);
  ToProto(status.rule, proto->mutable_rule());
  proto->set_update_count(status.update_count);
  ToProto(status.multipliers, proto->mutable_multipliers());
  proto->set_learning_rate(status.learning_rate);
  proto->set_weight_decay(status.weight_decay);
  EncodeStrings(status.states, proto->mutable_states());
  if (status.digest) proto->set_digest(*status.digest);
}

}  // namespace

// --- With the tensors' data or without --------------------------------------

absl::StatusOr<InitRequest> DecodeInitRequest(v1::InitRequest& proto,
                                              TensorDecoder decode) {
  InitRequest request;
  request.name_space = proto.namespace_();
  request.call_id = DecodeCallId(proto);
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.on_existing, DecodeOnExisting(proto.on_existing()));
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
  EncodeCallId(request.call_id, proto);
  proto->set_namespace_uid(request.namespace_uid);
  proto->set_on_existing(EncodeOnExisting(request.on_existing));
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
  request.call_id = DecodeCallId(proto);
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.worker, DecodeWorkerIfPresent(proto));
  request.step = proto.step();
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
  EncodeCallId(request.call_id, proto);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorkerIfPresent(request.worker, proto);
  proto->set_step(request.step);
  for (const PushEntry& entry : request.entries) {
    v1::PushEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_skip(entry.skip);
    if (entry.skip) continue;
    out->set_weight(entry.weight);
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
  ASSIGN_OR_RETURN(request.dtype, DecodeDTypeIfPresent(proto));
  return request;
}

void EncodePushPullRequest(const PushPullRequest& request, TensorEncoder encode,
                           v1::PushPullRequest* proto) {
  proto->set_max_reply_bytes(request.max_reply_bytes);
  proto->set_dtype(static_cast<v1::DType>(request.dtype));
  EncodePushRequest(request, encode, proto->mutable_push());
}

absl::StatusOr<PullReply> DecodeValues(RepeatedPtrField<v1::Value>& protos,
                                       TensorDecoder decode) {
  const auto decode_value =
      [decode](v1::Value& proto) -> absl::StatusOr<Value> {
    ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(proto, decode));
    return Value{proto.version(), std::move(tensor), proto.num_contributions()};
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
    encode(value.tensor, proto->mutable_tensor());
  }
}

PushReply DecodeResults(const RepeatedPtrField<v1::PushResult>& protos) {
  PushReply reply;
  reply.results.reserve(protos.size());
  for (const v1::PushResult& result : protos) {
    reply.results.push_back(
        {result.version(), result.step(), result.repeated()});
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
  }
}

// --- Init -------------------------------------------------------------------

absl::StatusOr<InitRequest> FromProto(v1::InitRequest&& proto) {
  return DecodeInitRequest(proto, DecodeWithData);
}

void ToProto(const InitRequest& request, v1::InitRequest* proto) {
  EncodeInitRequest(request, EncodeWithData, proto);
}

InitReply FromProto(const v1::InitResponse& proto) {
  return {.versions = {proto.versions().begin(), proto.versions().end()}};
}

void ToProto(const InitReply& reply, v1::InitResponse* proto) {
  proto->mutable_versions()->Add(reply.versions.begin(), reply.versions.end());
}

// --- Push, Pull, PushPull ---------------------------------------------------

absl::StatusOr<PushRequest> FromProto(v1::PushRequest&& proto) {
  return DecodePushRequest(proto, DecodeWithData);
}

void ToProto(const PushRequest& request, v1::PushRequest* proto) {
  EncodePushRequest(request, EncodeWithData, proto);
}

PushReply FromProto(const v1::PushResponse& proto) {
  return DecodeResults(proto.results());
}

void ToProto(const PushReply& reply, v1::PushResponse* proto) {
  EncodeResults(reply, proto->mutable_results());
}

absl::StatusOr<PullRequest> FromProto(const v1::PullRequest& proto) {
  PullRequest request;
  request.name_space = proto.namespace_();
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.worker, DecodeWorkerIfPresent(proto));
  request.wait_for_keys = proto.wait_for_keys();
  request.max_reply_bytes = proto.max_reply_bytes();
  ASSIGN_OR_RETURN(request.dtype, DecodeDTypeIfPresent(proto));
  request.entries.reserve(proto.entries_size());
  for (const v1::PullEntry& entry : proto.entries()) {
    request.entries.push_back({entry.key(), entry.min_version()});
  }
  return request;
}

void ToProto(const PullRequest& request, v1::PullRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorkerIfPresent(request.worker, proto);
  proto->set_wait_for_keys(request.wait_for_keys);
  proto->set_max_reply_bytes(request.max_reply_bytes);
  proto->set_dtype(static_cast<v1::DType>(request.dtype));
  for (const PullEntry& entry : request.entries) {
    v1::PullEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_min_version(entry.min_version);
  }
}

absl::StatusOr<PullReply> FromProto(v1::PullResponse&& proto) {
  return DecodeValues(*proto.mutable_values(), DecodeWithData);
}

void ToProto(const PullReply& reply, v1::PullResponse* proto) {
  EncodeValues(reply, EncodeWithData, proto->mutable_values());
}

absl::StatusOr<PushPullRequest> FromProto(v1::PushPullRequest&& proto) {
  return DecodePushPullRequest(proto, DecodeWithData);
}

void ToProto(const PushPullRequest& request, v1::PushPullRequest* proto) {
  EncodePushPullRequest(request, EncodeWithData, proto);
}

absl::StatusOr<PullReply> FromProto(v1::PushPullResponse&& proto) {
  return DecodeValues(*proto.mutable_values(), DecodeWithData);
}

void ToProto(const PullReply& reply, v1::PushPullResponse* proto) {
  EncodeValues(reply, EncodeWithData, proto->mutable_values());
}

// --- Delete, List, Stat -----------------------------------------------------

absl::StatusOr<DeleteRequest> FromProto(const v1::DeleteRequest& proto) {
  return DeleteRequest{.name_space = proto.namespace_(),
                       .call_id = DecodeCallId(proto),
                       .keys = DecodeStrings(proto.keys()),
                       .allow_missing = proto.allow_missing(),
                       .namespace_uid = proto.namespace_uid()};
}

void ToProto(const DeleteRequest& request, v1::DeleteRequest* proto) {
  proto->set_namespace_(request.name_space);
  EncodeCallId(request.call_id, proto);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeStrings(request.keys, proto->mutable_keys());
  proto->set_allow_missing(request.allow_missing);
}

absl::StatusOr<DeleteReply> FromProto(const v1::DeleteResponse& proto) {
  return DeleteReply{.num_deleted = proto.num_deleted()};
}

void ToProto(const DeleteReply& reply, v1::DeleteResponse* proto) {
  proto->set_num_deleted(reply.num_deleted);
}

absl::StatusOr<ListRequest> FromProto(const v1::ListRequest& proto) {
  return ListRequest{.name_space = proto.namespace_(),
                     .prefix = proto.prefix(),
                     .page_size = proto.page_size(),
                     .page_token = proto.page_token(),
                     .namespace_uid = proto.namespace_uid()};
}

void ToProto(const ListRequest& request, v1::ListRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  proto->set_prefix(request.prefix);
  proto->set_page_size(request.page_size);
  proto->set_page_token(request.page_token);
}

absl::StatusOr<ListReply> FromProto(const v1::ListResponse& proto) {
  ListReply reply;
  ASSIGN_OR_RETURN(reply.keys, DecodeAll(proto.keys(), DecodeKeyStatus));
  reply.next_page_token = proto.next_page_token();
  reply.placement_version = proto.placement_version();
  return reply;
}

void ToProto(const ListReply& reply, v1::ListResponse* proto) {
  for (const KeyStatus& key : reply.keys) {
    EncodeKeyStatus(key, proto->add_keys());
  }
  proto->set_next_page_token(reply.next_page_token);
  proto->set_placement_version(reply.placement_version);
}

absl::StatusOr<StatRequest> FromProto(const v1::StatRequest& proto) {
  return StatRequest{.name_space = proto.namespace_(),
                     .keys = DecodeStrings(proto.keys()),
                     .compute_digests = proto.compute_digests(),
                     .namespace_uid = proto.namespace_uid()};
}

void ToProto(const StatRequest& request, v1::StatRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeStrings(request.keys, proto->mutable_keys());
  proto->set_compute_digests(request.compute_digests);
}

absl::StatusOr<StatReply> FromProto(const v1::StatResponse& proto) {
  StatReply reply;
  ASSIGN_OR_RETURN(reply.keys, DecodeAll(proto.keys(), DecodeKeyStatus));
  return reply;
}

void ToProto(const StatReply& reply, v1::StatResponse* proto) {
  for (const KeyStatus& key : reply.keys) {
    EncodeKeyStatus(key, proto->add_keys());
  }
}

}  // namespace tensorkv
