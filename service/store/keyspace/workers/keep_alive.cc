// KeepAlive: renews the lease of a worker.

#include <utility>

#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/request_fields.h"
#include "service/store/keyspace/namespace_state.h"

namespace tensorkv {
namespace {

absl::StatusOr<KeepAliveReply> Renew(NamespaceState& state,
                                     const KeepAliveRequest& request) {
  const Worker worker = WorkerOf(request.worker());
  MutexLock lock(&state.mutex);
  const absl::Duration now = state.Now();
  RETURN_IF_ERROR(state.workers->CheckJoined(worker, now));
  state.workers->Renew(worker, now);
  KeepAliveReply reply;
  EncodeDuration(state.workers->LeaseRemaining(worker, now),
                 reply.mutable_lease_remaining());
  reply.set_num_workers(state.workers->num_workers());
  reply.set_next_step(state.mode->NextStepOf(worker.rank));
  return reply;
}

}  // namespace

void Namespace::KeepAlive(KeepAliveRequest request, CallContext,
                          ReplyCallback<KeepAliveReply> done) {
  std::move(done)(Renew(*state_, request));
}

}  // namespace tensorkv
