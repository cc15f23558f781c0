// How the world's workers join, ask, leave and die.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "tests/service/store/init_now.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

std::string WorkerName(uint32_t actor) { return absl::StrCat("worker", actor); }

}  // namespace

// A server remembers the last worker of a rank alone.
void World::TakeRank(Space& space, uint32_t actor, uint32_t rank) {
  if (rank >= kNumActors) return;
  space.has_left[rank] = false;
  const uint32_t former = std::exchange(space.last_actor[rank], actor);
  const bool is_first = former == actor || former == kNumActors;
  if (space.plan.is_group() || is_first) return;
  space.reached[former] = 0;
  space.most_reached[former] = 0;
}

void World::Join(const Action& action, bool replaces) {
  CallPtr call;
  const uint32_t at = action.space;
  const uint32_t actor = action.actor;
  JoinRequest request;
  {
    MutexLock lock(&mutex_);
    const Space& space = spaces_[at];
    const Member& member = space.members[actor];
    if (!space.plan.joins || (replaces && member.num_pushes > 0)) return;
    call = NewCall(action, /*changes=*/false);
    // Who joins may replace another.
    call->verb = Verb::kRejoin;
    request.set_namespace_(space.plan.name);
    request.set_worker_name(WorkerName(actor));
    request.mutable_lease()->set_seconds(2 + action.number % 3);
    if (replaces) request.set_replaces_epoch(member.worker.epoch);
  }
  Ask(
      call,
      [this, call, at, actor, request] {
        const absl::StatusOr<JoinReply> reply =
            testing::MakeNow(At(*call).store(), request);
        if (!reply.ok()) return reply.status();
        MutexLock lock(&mutex_);
        Space& space = spaces_[at];
        if (call->generation != space.generation) return reply.status();
        const Worker worker = WorkerOf(reply->worker());
        CheckNextStep(*call, space, worker.rank, reply->next_step());
        TakeRank(space, actor, worker.rank);
        space.members[actor] = {.worker = worker,
                                .has_joined = true,
                                .next = reply->next_step(),
                                .told_at_join = reply->next_step()};
        return reply.status();
      },
      nullptr);
}

void World::KeepAlive(const Action& action) {
  CallPtr call;
  const uint32_t at = action.space;
  const uint32_t actor = action.actor;
  KeepAliveRequest request;
  {
    MutexLock lock(&mutex_);
    const Space& space = spaces_[at];
    const Member& member = space.members[actor];
    if (!member.has_joined) return;
    call = NewCall(action, /*changes=*/false);
    request.set_namespace_(space.plan.name);
    SetWorker(member.worker, request.mutable_worker());
  }
  Ask(
      call,
      [this, call, at, actor, request] {
        const absl::StatusOr<KeepAliveReply> reply =
            testing::MakeNow(At(*call).store(), request);
        const Worker worker = WorkerOf(request.worker());
        MutexLock lock(&mutex_);
        Space& space = spaces_[at];
        Member& member = space.members[actor];
        if (call->generation != space.generation ||
            member.worker.epoch != worker.epoch) {
          return reply.status();
        }
        if (reply.ok()) {
          CheckNextStep(*call, space, worker.rank, reply->next_step());
          if (reply->next_step() != member.told_at_join) {
            CheckStepToRepush(space, worker.rank, reply->next_step());
          }
          if (member.must_ask) member.next = reply->next_step();
          member.must_ask = false;
          return reply.status();
        }
        member.has_joined = false;
        return reply.status();
      },
      nullptr);
}

void World::Leave(const Action& action) {
  CallPtr call;
  LeaveRequest request;
  {
    MutexLock lock(&mutex_);
    Member& member = spaces_[action.space].members[action.actor];
    if (!member.has_joined) return;
    member.has_joined = false;
    call = NewCall(action, /*changes=*/true);
    request.set_namespace_(spaces_[action.space].plan.name);
    SetWorker(member.worker, request.mutable_worker());
    if (call->id) SetCallId(*call->id, request);
    // Another may have the rank before the answer is there.
    spaces_[action.space].has_left[member.worker.rank] = true;
  }
  Ask(
      call,
      [this, call, request] {
        return testing::MakeNow(At(*call).store(), request);
      },
      nullptr);
}

// The process is gone: its lease ends by itself. Later it comes back, and
// knows nothing but its name.
void World::Die(const Action& action) {
  MutexLock lock(&mutex_);
  Space& space = spaces_[action.space];
  if (space.plan.joins) space.members[action.actor].has_joined = false;
}

void World::Barrier(const Action& action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    const Space& space = spaces_[action.space];
    const Member& member = space.members[action.actor];
    if (member.worker.rank >= space.plan.num_ranks()) return;
    call = NewCall(action, /*changes=*/true);
    call->is_compared = false;
    call->is_bound = true;
    BarrierRequest request;
    request.set_namespace_(space.plan.name);
    SetWorker(member.worker, request.mutable_worker());
    request.set_barrier("barrier");
    if (call->id) SetCallId(*call->id, request);
    // It is its namespace's home that it goes to.
    call->keys = 0;
    call->ask_again = [this, request](const Call& made, const CallContext& in,
                                      auto done) {
      BarrierRequest again = request;
      again.clear_call_id();
      At(made).store().Barrier(
          again, in, [done](const absl::StatusOr<BarrierReply>& reply) {
            done(reply.status());
          });
    };
    call->make = [this, request](const CallPtr& made) {
      CallContext context;
      ReplyCallback<BarrierReply> done;
      {
        MutexLock lock(&mutex_);
        const AttemptPtr attempt = Begin(made, /*blocks=*/false);
        context = ContextOf(*attempt);
        done = Ending<BarrierReply>(
            attempt,
            [this, attempt](const absl::StatusOr<BarrierReply>& reply) {
              EndAttempt(attempt, reply.status(), reply.status().ToString());
            });
      }
      At(*made).store().Barrier(request, context, std::move(done));
    };
  }
  Run([call] { call->make(call); });
}

}  // namespace tensorkv::swarm
