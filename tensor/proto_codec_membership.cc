#include "base/status_macros.h"
#include "tensor/proto_codec.h"
#include "tensor/proto_codec_fields.h"

namespace tensorkv {
namespace {

Worker DecodeWorker(const v1::Worker& proto) {
  return {.rank = proto.rank(), .epoch = proto.epoch()};
}

void EncodeWorker(const Worker& worker, v1::Worker* proto) {
  proto->set_rank(worker.rank);
  proto->set_epoch(worker.epoch);
}

}  // namespace

absl::StatusOr<JoinRequest> FromProto(const v1::JoinRequest& proto) {
  JoinRequest request;
  request.name_space = proto.namespace_();
  request.worker_name = proto.worker_name();
  ASSIGN_OR_RETURN(request.lease, DecodeDuration("lease", proto.lease()));
  request.call_id = DecodeCallId(proto);
  return request;
}

void ToProto(const JoinRequest& request, v1::JoinRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_worker_name(request.worker_name);
  EncodeDuration(request.lease, proto->mutable_lease());
  EncodeCallId(request.call_id, proto);
}

absl::StatusOr<JoinReply> FromProto(const v1::JoinResponse& proto) {
  JoinReply reply;
  reply.worker = DecodeWorker(proto.worker());
  reply.num_workers = proto.num_workers();
  ASSIGN_OR_RETURN(reply.lease, DecodeDuration("lease", proto.lease()));
  reply.server_incarnation = proto.server_incarnation();
  reply.step = proto.step();
  return reply;
}

void ToProto(const JoinReply& reply, v1::JoinResponse* proto) {
  EncodeWorker(reply.worker, proto->mutable_worker());
  proto->set_num_workers(reply.num_workers);
  EncodeDuration(reply.lease, proto->mutable_lease());
  proto->set_server_incarnation(reply.server_incarnation);
  proto->set_step(reply.step);
}

KeepAliveRequest FromProto(const v1::KeepAliveRequest& proto) {
  return {.name_space = proto.namespace_(),
          .worker = DecodeWorker(proto.worker())};
}

void ToProto(const KeepAliveRequest& request, v1::KeepAliveRequest* proto) {
  proto->set_namespace_(request.name_space);
  EncodeWorker(request.worker, proto->mutable_worker());
}

absl::StatusOr<KeepAliveReply> FromProto(const v1::KeepAliveResponse& proto) {
  KeepAliveReply reply;
  ASSIGN_OR_RETURN(reply.lease_remaining,
                   DecodeDuration("lease_remaining", proto.lease_remaining()));
  reply.num_workers = proto.num_workers();
  reply.step = proto.step();
  return reply;
}

void ToProto(const KeepAliveReply& reply, v1::KeepAliveResponse* proto) {
  EncodeDuration(reply.lease_remaining, proto->mutable_lease_remaining());
  proto->set_num_workers(reply.num_workers);
  proto->set_step(reply.step);
}

LeaveRequest FromProto(const v1::LeaveRequest& proto) {
  return {.name_space = proto.namespace_(),
          .worker = DecodeWorker(proto.worker()),
          .call_id = DecodeCallId(proto)};
}

void ToProto(const LeaveRequest& request, v1::LeaveRequest* proto) {
  proto->set_namespace_(request.name_space);
  EncodeWorker(request.worker, proto->mutable_worker());
  EncodeCallId(request.call_id, proto);
}

BarrierRequest FromProto(const v1::BarrierRequest& proto) {
  return {.name_space = proto.namespace_(),
          .worker = DecodeWorker(proto.worker()),
          .barrier = proto.barrier(),
          .call_id = DecodeCallId(proto)};
}

void ToProto(const BarrierRequest& request, v1::BarrierRequest* proto) {
  proto->set_namespace_(request.name_space);
  EncodeWorker(request.worker, proto->mutable_worker());
  proto->set_barrier(request.barrier);
  EncodeCallId(request.call_id, proto);
}

absl::StatusOr<WorkerStatus> FromProto(const v1::WorkerStatus& proto) {
  WorkerStatus status;
  status.name = proto.name();
  status.worker = {.rank = proto.rank(), .epoch = proto.epoch()};
  status.is_live = proto.is_live();
  status.step = proto.step();
  ASSIGN_OR_RETURN(status.lease_remaining,
                   DecodeDuration("lease_remaining", proto.lease_remaining()));
  return status;
}

void ToProto(const WorkerStatus& status, v1::WorkerStatus* proto) {
  proto->set_name(status.name);
  proto->set_rank(status.worker.rank);
  proto->set_epoch(status.worker.epoch);
  proto->set_is_live(status.is_live);
  proto->set_step(status.step);
  EncodeDuration(status.lease_remaining, proto->mutable_lease_remaining());
}

}  // namespace tensorkv
