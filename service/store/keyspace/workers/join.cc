// Join: makes its caller a member of the group, or one again.

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/request_fields.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/keyspace/workers/membership.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Reserves memory for the ranks up to `rank`, and adds them.
absl::Status ReserveRank(NamespaceState& state, uint32_t rank) {
  const uint32_t num_ranks = state.workers->num_ranks();
  if (rank < num_ranks) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      Reservation overhead,
      Reservation::Create(state.memory.metadata(),
                          (rank + 1 - num_ranks) * kWorkerOverheadBytes));
  state.worker_overhead.Merge(std::move(overhead));
  state.workers->ReserveRank(rank);
  return absl::OkStatus();
}

// Returns the step that a new worker of that rank is to push. Who comes after
// one that has left has no part in what that one has done, unless that is lost.
Step FirstStepAfterLeave(const NamespaceState& state, uint32_t rank) {
  const WorkerGroup& workers = *state.workers;
  const Step last = workers.step_of(rank);
  Step step = std::max(last == UINT64_MAX ? last : last + 1,
                       workers.first_step_of(rank));
  if (state.mode->MustRepush(rank) || workers.RepeatsStep(rank)) {
    step = std::min(step, state.mode->NextStepOf(rank));
  }
  for (const StoredKey* key : state.keys_with_rounds) {
    if (const auto awaited = key->rounds->FirstWithout({&rank, 1})) {
      step = std::min(step, *awaited);
    }
  }
  return step;
}

// Returns the step that a new worker of that rank is to push. A new process
// does not have what its former self has pushed ahead; it goes on where a round
// may yet fail that is to be pushed again, or that is to take what came late.
// Keys are looked at for those alone who come back: nobody has part in rounds
// before the first step of the rank.
Step FirstStepOf(const NamespaceState& state, uint32_t rank) {
  Step step = state.mode->NextStepOf(rank);
  const Step first = std::max(state.workers->first_step_of(rank), Step{1});
  if (step <= first) return step;
  for (const StoredKey* key : state.keys_with_rounds) {
    while (step > first && key->rounds->Awaits(rank, step - 1)) --step;
    step = std::min(step, std::max(first, key->rounds->FirstLateOf(rank)));
  }
  return step;
}

// Returns an epoch that is above all that the server has given, above those of
// the group's members, which other servers may have given, and, as far as
// clocks go, above all that any server has given before.
uint64_t NewEpoch(const NamespaceState& state) {
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  std::atomic<uint64_t>& last = *state.environment.last_epoch;
  uint64_t before = last;
  uint64_t given = 0;
  do {
    given = std::max(now, before + 1);
  } while (!last.compare_exchange_weak(before, given));
  return std::max(given, state.workers->max_epoch() + 1);
}

// Bounds by how much the clocks of a cluster's servers may differ: a later
// epoch would keep out, for ever, all that homes give.
constexpr absl::Duration kMostAhead = absl::Hours(24);

// Checks the epoch that a Join brings from the namespace's home.
absl::Status CheckEpochOf(const JoinRequest& request) {
  if (request.epoch() == 0) return absl::OkStatus();
  if (!request.has_rank()) {
    return absl::InvalidArgumentError("epoch: expected a rank beside it");
  }
  const absl::Time most = absl::Now() + kMostAhead;
  if (request.epoch() <= static_cast<uint64_t>(absl::ToUnixNanos(most))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("epoch: expected nanoseconds since 1970, at most a day from "
                   "now, got ",
                   request.epoch()));
}

// Ends the former life of the worker on another rank than the namespace's home
// has given it: at home it was lost, and whoever renews its lease here would
// keep the worker out.
void LoseOnOtherRank(Transaction& transaction, const JoinRequest& request) {
  NamespaceState& state = transaction.state();
  const std::optional<Worker> former =
      state.workers->FormerOf(request.worker_name(), request.rank());
  if (!former) return;
  state.workers->EndLease(*former, state.Now());
  LoseWorkers(transaction, {former->rank});
  OnWorkersGone(transaction, {former->rank});
}

absl::StatusOr<JoinReply> AddWorker(Transaction& transaction,
                                    const JoinRequest& from_caller,
                                    absl::Duration lease) {
  NamespaceState& state = transaction.state();
  RETURN_IF_ERROR(state.end_of_waits);
  JoinRequest request = from_caller;
  std::optional<uint32_t> wanted_rank;
  if (request.has_rank()) wanted_rank = request.rank();
  if (request.epoch() == 0) {
    request.set_epoch(NewEpoch(state));
  } else {
    ASSIGN_OR_RETURN(const uint64_t before,
                     state.workers->EpochBefore(
                         request.worker_name(),
                         {.rank = request.rank(), .epoch = request.epoch()}));
    request.set_replaces_epoch(before);
    LoseOnOtherRank(transaction, request);
  }
  const absl::StatusOr<uint32_t> rank = state.workers->RankFor(
      request.worker_name(), request.replaces_epoch(), wanted_rank);
  bool was_lost = false;
  bool had_left = false;
  if (rank.ok()) {
    RETURN_IF_ERROR(ReserveRank(state, *rank));
    was_lost = state.workers->WasLost(*rank, request.worker_name());
    had_left = state.workers->HasLeft(*rank);
  }
  ASSIGN_OR_RETURN(
      const Worker worker,
      state.workers->Join(request.worker_name(), lease, request.epoch(),
                          request.replaces_epoch(), state.mode->StepOfJoiner(),
                          state.Now(), wanted_rank));
  SetLeaseAlarm(state);
  JoinReply reply;
  SetWorker(worker, reply.mutable_worker());
  reply.set_num_workers(state.workers->num_workers());
  EncodeDuration(lease, reply.mutable_lease());
  reply.set_next_step(had_left ? FirstStepAfterLeave(state, worker.rank)
                               : FirstStepOf(state, worker.rank));
  reply.set_lost_before(was_lost);
  return reply;
}

absl::StatusOr<JoinReply> AddWorkerAndWake(NamespaceState& state,
                                           const JoinRequest& request,
                                           absl::Duration lease) {
  Transaction transaction(state);
  const bool was_formed = state.workers->is_formed();
  absl::StatusOr<JoinReply> reply = AddWorker(transaction, request, lease);
  if (!reply.ok()) return reply;
  // An elastic group then awaits none of those who have not come, or were lost.
  if (state.workers->is_formed() && !was_formed) {
    std::vector<uint32_t> ranks(state.workers->num_ranks());
    std::iota(ranks.begin(), ranks.end(), 0);
    OnWorkersGone(transaction, ranks);
  }
  // The calls of the epoch that was replaced end.
  if (request.replaces_epoch() != 0 || request.epoch() != 0) {
    WakeAll(transaction);
  }
  return reply;
}

absl::StatusOr<JoinReply> JoinNow(NamespaceState& state,
                                  const JoinRequest& request) {
  RETURN_IF_ERROR(CheckWorkerName(request.worker_name()));
  RETURN_IF_ERROR(CheckEpochOf(request));
  ASSIGN_OR_RETURN(const absl::Duration lease,
                   DecodeDuration("lease", request.lease()));
  ASSIGN_OR_RETURN(JoinReply reply, AddWorkerAndWake(state, request, lease));
  state.Report(StoreEvent::kWorkerJoined,
               absl::StrCat("rank ", reply.worker().rank(), " (",
                            Quoted(request.worker_name()), ")"));
  return reply;
}

}  // namespace

void Namespace::Join(JoinRequest request, CallContext,
                     ReplyCallback<JoinReply> done) {
  std::move(done)(JoinNow(*state_, request));
}

}  // namespace tensorkv
