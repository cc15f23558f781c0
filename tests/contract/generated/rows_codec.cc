#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "contract/row_ids.h"
#include "tests/contract/generated/fields.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv {
namespace {

// Takes the payload over.
template <typename Proto>
absl::StatusOr<RefPtr<const RowIds>> DecodeRows(Proto& proto) {
  if (!proto.has_rows()) return absl::InvalidArgumentError("rows: missing");
  absl::StatusOr<Tensor> ids = DecodeWithData(*proto.mutable_rows());
  if (!ids.ok()) return ErrorFrom("rows", ids.status());
  return RowIds::Create(*std::move(ids));
}

absl::StatusOr<PushEntry> DecodePushRowsEntry(v1::PushRowsEntry& proto,
                                              TensorDecoder decode) {
  PushEntry entry;
  entry.key = proto.key();
  entry.skip = proto.skip();
  entry.update_all_rows = proto.update_all_rows();
  if (entry.skip) {
    if (!proto.has_rows() && !proto.has_tensor() && !proto.has_encoding()) {
      return entry;
    }
    return absl::InvalidArgumentError(
        "rows: expected none with skip, got some");
  }
  if (proto.has_weight()) entry.weight = proto.weight();
  ASSIGN_OR_RETURN(entry.rows, DecodeRows(proto));
  RETURN_IF_ERROR(DecodeContribution(proto, decode, &entry));
  return entry;
}

absl::StatusOr<PullEntry> DecodePullRowsEntry(v1::PullRowsEntry& proto) {
  PullEntry entry;
  entry.key = proto.key();
  entry.min_version = proto.min_version();
  ASSIGN_OR_RETURN(entry.rows, DecodeRows(proto));
  return entry;
}

}  // namespace

absl::StatusOr<PushRequest> DecodePushRowsRequest(v1::PushRowsRequest& proto,
                                                  TensorDecoder decode) {
  PushRequest request;
  request.name_space = proto.namespace_();
  request.call_id = CallIdIn(proto);
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.worker, DecodeWorkerIfPresent(proto));
  request.step = proto.step();
  if (proto.has_publish_as()) request.publish_as = proto.publish_as();
  const auto decode_entry = [decode](v1::PushRowsEntry& entry) {
    return DecodePushRowsEntry(entry, decode);
  };
  ASSIGN_OR_RETURN(request.entries,
                   DecodeAll(*proto.mutable_entries(), decode_entry));
  return request;
}

void EncodePushRowsRequest(const PushRequest& request, TensorEncoder encode,
                           v1::PushRowsRequest* proto) {
  proto->set_namespace_(request.name_space);
  if (request.call_id) SetCallId(*request.call_id, *proto);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorkerIfPresent(request.worker, proto);
  proto->set_step(request.step);
  if (request.publish_as) *proto->mutable_publish_as() = *request.publish_as;
  for (const PushEntry& entry : request.entries) {
    v1::PushRowsEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_skip(entry.skip);
    out->set_update_all_rows(entry.update_all_rows);
    if (entry.skip) continue;
    if (entry.weight != 1) out->set_weight(entry.weight);
    if (entry.rows) EncodeWithData(entry.rows->tensor(), out->mutable_rows());
    EncodeContribution(entry, encode, out);
  }
}

absl::StatusOr<PushRowsRequest> FromProto(v1::PushRowsRequest&& proto) {
  ASSIGN_OR_RETURN(PushRequest request,
                   DecodePushRowsRequest(proto, DecodeWithData));
  return PushRowsRequest{std::move(request)};
}

void ToProto(const PushRowsRequest& request, v1::PushRowsRequest* proto) {
  EncodePushRowsRequest(request, EncodeWithData, proto);
}

PushReply FromProto(const v1::PushRowsResponse& proto) {
  PushReply reply = DecodeResults(proto.results());
  if (proto.has_published()) {
    reply.published = {.number = proto.published().number(),
                       .revision = proto.published().revision(),
                       .parts_missing = proto.published().parts_missing()};
  }
  return reply;
}

void ToProto(const PushReply& reply, v1::PushRowsResponse* proto) {
  EncodeResults(reply, proto->mutable_results());
  if (!reply.published) return;
  proto->mutable_published()->set_number(reply.published->number);
  proto->mutable_published()->set_revision(reply.published->revision);
  proto->mutable_published()->set_parts_missing(reply.published->parts_missing);
}

absl::StatusOr<PullRequest> DecodePullRowsRequest(v1::PullRowsRequest& proto) {
  PullRequest request;
  request.name_space = proto.namespace_();
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.worker, DecodeWorkerIfPresent(proto));
  request.wait_for_keys = proto.wait_for_keys();
  request.max_reply_bytes = proto.max_reply_bytes();
  request.ticket_from_bytes = proto.ticket_from_bytes();
  if (proto.has_at()) request.at = proto.at();
  ASSIGN_OR_RETURN(request.entries,
                   DecodeAll(*proto.mutable_entries(), DecodePullRowsEntry));
  return request;
}

void EncodePullRowsRequest(const PullRequest& request,
                           v1::PullRowsRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorkerIfPresent(request.worker, proto);
  proto->set_wait_for_keys(request.wait_for_keys);
  proto->set_max_reply_bytes(request.max_reply_bytes);
  proto->set_ticket_from_bytes(request.ticket_from_bytes);
  if (request.at) *proto->mutable_at() = *request.at;
  for (const PullEntry& entry : request.entries) {
    v1::PullRowsEntry* out = proto->add_entries();
    out->set_key(entry.key);
    out->set_min_version(entry.min_version);
    if (entry.rows) EncodeWithData(entry.rows->tensor(), out->mutable_rows());
  }
}

absl::StatusOr<PullRowsRequest> FromProto(v1::PullRowsRequest&& proto) {
  ASSIGN_OR_RETURN(PullRequest request, DecodePullRowsRequest(proto));
  return PullRowsRequest{std::move(request)};
}

void ToProto(const PullRowsRequest& request, v1::PullRowsRequest* proto) {
  EncodePullRowsRequest(request, proto);
}

absl::StatusOr<PullReply> FromProto(v1::PullRowsResponse&& proto) {
  ASSIGN_OR_RETURN(PullReply reply, DecodeReply(proto));
  reply.snapshot_number = proto.snapshot_number();
  return reply;
}

void ToProto(const PullReply& reply, v1::PullRowsResponse* proto) {
  proto->set_snapshot_number(reply.snapshot_number);
  EncodeReply(reply, proto);
}

}  // namespace tensorkv
