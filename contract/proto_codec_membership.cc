#include <cstdint>

#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"

namespace tensorkv {
namespace {

// Decodes the worker that a message must have.
template <typename Proto>
absl::StatusOr<Worker> DecodeRequiredWorker(const Proto& proto) {
  if (proto.has_worker()) return DecodeWorker(proto.worker());
  return absl::InvalidArgumentError("worker: missing");
}

// Whoever may not call is told that first: the group refuses the rank that no
// worker has.
template <typename Proto>
Worker DecodeWorkerOrNobody(const Proto& proto) {
  const bool has_rank = proto.has_worker() && proto.worker().has_rank();
  return {.rank = has_rank ? proto.worker().rank() : UINT32_MAX,
          .epoch = proto.worker().epoch()};
}

}  // namespace

absl::StatusOr<JoinRequest> FromProto(const v1::JoinRequest& proto) {
  JoinRequest request;
  request.name_space = proto.namespace_();
  request.worker_name = proto.worker_name();
  request.call_id = DecodeCallId(proto);
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.lease, DecodeDuration("lease", proto.lease()));
  request.replaces_epoch = proto.replaces_epoch();
  if (proto.has_rank()) request.rank = proto.rank();
  request.epoch = proto.epoch();
  return request;
}

void ToProto(const JoinRequest& request, v1::JoinRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_worker_name(request.worker_name);
  EncodeCallId(request.call_id, proto);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeDuration(request.lease, proto->mutable_lease());
  proto->set_replaces_epoch(request.replaces_epoch);
  if (request.rank) proto->set_rank(*request.rank);
  proto->set_epoch(request.epoch);
}

absl::StatusOr<JoinReply> FromProto(const v1::JoinResponse& proto) {
  JoinReply reply;
  ASSIGN_OR_RETURN(reply.worker, DecodeRequiredWorker(proto));
  reply.num_workers = proto.num_workers();
  ASSIGN_OR_RETURN(reply.lease, DecodeDuration("lease", proto.lease()));
  reply.server_incarnation = proto.server_incarnation();
  reply.next_step = proto.next_step();
  reply.lost_before = proto.lost_before();
  return reply;
}

void ToProto(const JoinReply& reply, v1::JoinResponse* proto) {
  EncodeWorker(reply.worker, proto->mutable_worker());
  proto->set_num_workers(reply.num_workers);
  EncodeDuration(reply.lease, proto->mutable_lease());
  proto->set_server_incarnation(reply.server_incarnation);
  proto->set_next_step(reply.next_step);
  proto->set_lost_before(reply.lost_before);
}

absl::StatusOr<KeepAliveRequest> FromProto(const v1::KeepAliveRequest& proto) {
  KeepAliveRequest request;
  request.name_space = proto.namespace_();
  request.namespace_uid = proto.namespace_uid();
  request.worker = DecodeWorkerOrNobody(proto);
  return request;
}

void ToProto(const KeepAliveRequest& request, v1::KeepAliveRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorker(request.worker, proto->mutable_worker());
}

absl::StatusOr<KeepAliveReply> FromProto(const v1::KeepAliveResponse& proto) {
  KeepAliveReply reply;
  ASSIGN_OR_RETURN(reply.lease_remaining,
                   DecodeDuration("lease_remaining", proto.lease_remaining()));
  reply.num_workers = proto.num_workers();
  reply.next_step = proto.next_step();
  return reply;
}

void ToProto(const KeepAliveReply& reply, v1::KeepAliveResponse* proto) {
  EncodeDuration(reply.lease_remaining, proto->mutable_lease_remaining());
  proto->set_num_workers(reply.num_workers);
  proto->set_next_step(reply.next_step);
}

absl::StatusOr<LeaveRequest> FromProto(const v1::LeaveRequest& proto) {
  LeaveRequest request;
  request.name_space = proto.namespace_();
  request.call_id = DecodeCallId(proto);
  request.namespace_uid = proto.namespace_uid();
  request.worker = DecodeWorkerOrNobody(proto);
  request.lost = proto.lost();
  if (proto.has_step()) request.step = proto.step();
  return request;
}

void ToProto(const LeaveRequest& request, v1::LeaveRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeWorker(request.worker, proto->mutable_worker());
  EncodeCallId(request.call_id, proto);
  proto->set_lost(request.lost);
  if (request.step) proto->set_step(*request.step);
}

absl::StatusOr<BarrierRequest> FromProto(const v1::BarrierRequest& proto) {
  BarrierRequest request;
  request.name_space = proto.namespace_();
  request.call_id = DecodeCallId(proto);
  request.namespace_uid = proto.namespace_uid();
  request.worker = DecodeWorkerOrNobody(proto);
  request.barrier = proto.barrier();
  return request;
}

void ToProto(const BarrierRequest& request, v1::BarrierRequest* proto) {
  proto->set_namespace_(request.name_space);
  EncodeWorker(request.worker, proto->mutable_worker());
  proto->set_namespace_uid(request.namespace_uid);
  proto->set_barrier(request.barrier);
  EncodeCallId(request.call_id, proto);
}

absl::StatusOr<WorkerStatus> FromProto(const v1::WorkerStatus& proto) {
  WorkerStatus status;
  status.name = proto.name();
  ASSIGN_OR_RETURN(status.worker, DecodeRequiredWorker(proto));
  status.live = proto.live();
  status.step = proto.step();
  ASSIGN_OR_RETURN(status.lease_remaining,
                   DecodeDuration("lease_remaining", proto.lease_remaining()));
  status.left = proto.left();
  return status;
}

void ToProto(const WorkerStatus& status, v1::WorkerStatus* proto) {
  proto->set_name(status.name);
  EncodeWorker(status.worker, proto->mutable_worker());
  proto->set_live(status.live);
  proto->set_step(status.step);
  EncodeDuration(status.lease_remaining, proto->mutable_lease_remaining());
  proto->set_left(status.left);
}

}  // namespace tensorkv
