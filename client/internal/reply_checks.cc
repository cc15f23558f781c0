#include "client/internal/reply_checks.h"

#include "contract/duration.h"
#include "contract/proto_codec.h"

namespace tensorkv {

absl::Status CheckFields(const JoinReply& reply) {
  if (!reply.has_worker()) {
    return absl::InvalidArgumentError("worker: missing");
  }
  if (!reply.worker().has_rank()) {
    return absl::InvalidArgumentError("worker.rank: missing");
  }
  return DecodeDuration("lease", reply.lease()).status();
}

absl::Status CheckFields(const KeepAliveReply& reply) {
  return DecodeDuration("lease_remaining", reply.lease_remaining()).status();
}

absl::Status CheckFields(const ListReply& reply) {
  return CheckShapes(reply.keys());
}

absl::Status CheckFields(const StatReply& reply) {
  return CheckShapes(reply.keys());
}

}  // namespace tensorkv
