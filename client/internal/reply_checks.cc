#include "client/internal/reply_checks.h"

#include "contract/duration.h"

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

}  // namespace tensorkv
