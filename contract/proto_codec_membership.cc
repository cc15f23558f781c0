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

}  // namespace

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
