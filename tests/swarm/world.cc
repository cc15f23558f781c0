#include "tests/swarm/world.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/once_calls.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"

namespace tensorkv::swarm {
namespace {

// Longer than any lease or grace that a plan has.
constexpr absl::Duration kLongestLease = absl::Seconds(10);

}  // namespace

World::World(const Plan& plan, Scheduler* scheduler)
    : WorldState(plan, scheduler) {
  StartCluster();
  for (const SpacePlan& each : plan.spaces) {
    Action create = {.verb = Verb::kCreateNamespace};
    {
      MutexLock lock(&mutex_);
      create.space = static_cast<uint8_t>(spaces_.size());
      spaces_.emplace_back(each);
    }
    ChangeNamespaces(create);
    MutexLock lock(&mutex_);
    if (!spaces_.back().exists) Find("a namespace cannot be created");
  }
  if (!is_stepped() || is_cluster()) return;
  Run([this] { CheckHeadroom(servers_[0]->store(), spans_); });
  scheduler_->Settle();
}

// What the servers wait for at their end runs on threads of the scheduler.
World::~World() {
  for (auto& server : servers_) {
    Run([&server] { server = nullptr; });
    if (is_stepped()) scheduler_->Settle();
  }
}

void World::Take(const Action& action) {
  if (action.verb == Verb::kWork) return Work(action);
  for (const Action& part : PartsOf(action)) TakePart(part);
}

// What goes to one server.
void World::TakePart(const Action& action) {
  switch (action.verb) {
    case Verb::kInit:
      return Init(action);
    case Verb::kPush:
    case Verb::kPushPull:
    case Verb::kPushRows:
      return PushFreely(action);
    case Verb::kPull:
    case Verb::kWorkerPull:
    case Verb::kWaitingPull:
    case Verb::kPullRows:
      return Pull(action);
    case Verb::kNamedSnapshot:
      return NamedSnapshot(action);
    case Verb::kWatch:
      return Watch(action);
    case Verb::kSetState:
      return SetState(action);
    case Verb::kGetState:
      return GetState(action);
    case Verb::kDelete:
      return Delete(action);
    case Verb::kList:
    case Verb::kStat:
      return Look(action);
    case Verb::kSetRule:
    case Verb::kUnsetRule:
    case Verb::kSetHyperparameters:
    case Verb::kSetMultipliers:
    case Verb::kUnsetMultipliers:
      return ChangeRules(action);
    case Verb::kUpdateNamespace:
      return UpdateNamespace(action);
    case Verb::kDeleteNamespace:
    case Verb::kCreateNamespace:
      return ChangeNamespaces(action);
    case Verb::kRepeat:
    case Verb::kLateRepeat:
      return Repeat(action);
    case Verb::kCancel:
      return Cancel(action);
    default:
      return TakeEvent(action);
  }
}

void World::Repeat(const Action& action) {
  // Longer ago than that, a client does not repeat a call.
  constexpr absl::Duration kRemembered = absl::Minutes(10);
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    const std::vector<CallPtr>& made = made_[action.actor];
    if (made.empty()) return;
    const size_t back =
        action.verb == Verb::kLateRepeat ? action.how % made.size() : 0;
    call = made[made.size() - 1 - back];
    // A worker that asks what is next has given up what it had pushed.
    const SpacePlan& plan = spaces_[call->space].plan;
    if (plan.config.mode == Mode::kBounded && plan.is_orderly &&
        call->has_ended_work && !call->work.ok()) {
      return;
    }
    if (!call->make || call->last_made + kRemembered < alarms_.Now() ||
        call->generation != spaces_[call->space].generation || !Route(*call)) {
      return;
    }
  }
  Run([call] { call->make(call); });
}

void World::Cancel(const Action& action) {
  std::shared_ptr<Cancellation> cancellation;
  {
    MutexLock lock(&mutex_);
    if (under_way_.empty()) return;
    cancellation = under_way_[action.number % under_way_.size()]->cancellation;
  }
  Run([cancellation] { cancellation->Cancel(); });
}

// What is no call of data.
void World::TakeEvent(const Action& action) {
  switch (action.verb) {
    case Verb::kKeepAlive:
      return KeepAlive(action);
    case Verb::kRejoin:
      if (is_cluster()) return JoinEverywhere(action);
      return Join(action, /*replaces=*/true);
    case Verb::kLeave:
      if (is_cluster()) return LeaveEverywhere(action);
      return Leave(action);
    case Verb::kDie:
      return Die(action);
    case Verb::kBarrier:
      return Barrier(action);
    case Verb::kSettle:
      return Settle();
    case Verb::kAdvance:
      return Advance(absl::Milliseconds(1 + action.number % 3000));
    case Verb::kSlowDevice:
      return servers_[action.server]->backend().SetSlow(is_stepped() &&
                                                        action.how % 2 > 0);
    case Verb::kFailDevice: {
      MutexLock lock(&mutex_);
      has_failed_device_ = true;
      return servers_[action.server]->backend().FailNext(1 + action.how % 2);
    }
    case Verb::kSnapshot:
      return Snapshot(action);
    case Verb::kRestore:
      return Restore(action);
    case Verb::kMove:
      return is_cluster() ? MoveSome(action) : Move(action);
    case Verb::kLearn:
      return Learn(*servers_[action.server]);
    case Verb::kNetwork:
      return Disturb(action);
    case Verb::kLateMessage:
      return DeliverLate(action);
    case Verb::kLose:
      return Lose(action);
    default:
      return Resume(action);
  }
}

void World::Resume(const Action& action) {
  if (!is_stepped()) return;
  if (action.verb == Verb::kResume) {
    const size_t num_ready = scheduler_->num_ready();
    if (num_ready > 0) scheduler_->Resume(action.number % num_ready);
    if (is_cluster()) CheckIds();
    if (is_cluster() && !plan_.is_mirrored && action.how % 4 == 0) {
      CheckServing();
    }
  } else if (action.verb == Verb::kResumeReader) {
    const size_t num_readers = scheduler_->num_readers();
    if (num_readers > 0) scheduler_->ResumeReader(action.number % num_readers);
  }
}

void World::Settle() {
  if (!is_stepped()) return;
  scheduler_->Settle();
  // What has begun to wait after its deadline.
  Advance(absl::ZeroDuration());
  scheduler_->Settle();
  {
    MutexLock lock(&mutex_);
    CheckWaits("after all else has gone on");
  }
  CheckAgain();
  CheckBudgets(/*is_empty=*/false);
  if (is_cluster()) CheckIds();
  if (is_cluster() && !plan_.is_mirrored) CheckServing();
}

// Also those of a cluster that came and were not taken over.
void World::RemoveKeys(Server& server) {
  if (is_cluster()) {
    server.StopMoving();
    server.store().Discard({.num_partitions = 1, .partitions = {0}});
  }
  for (const SpacePlan& each : plan_.spaces) {
    DeleteRequest request;
    request.set_namespace_(each.name);
    request.set_allow_missing(true);
    for (uint32_t key = 0; key < kNumKeys; ++key) {
      request.add_keys(KeyName(key));
    }
    // It may not be there, or its keys be another server's.
    testing::MakeNow(server.store(), request, {}).IgnoreError();
  }
}

// Ends what waits. Without a scheduler, what runs may begin to wait meanwhile.
void World::EndWaits() {
  for (const absl::Duration wait : {kLongestLease, kMostWait, kMostWait}) {
    Advance(wait);
    if (!is_stepped()) continue;
    scheduler_->Settle();
    CheckAgain();
  }
  while (!is_stepped()) {
    {
      MutexLock lock(&mutex_);
      if (under_way_.empty()) return;
    }
    Advance(kMostWait);
    std::this_thread::yield();
  }
}

void World::Finish() {
  for (const auto& server : servers_) {
    server->backend().SetSlow(false);
    server->backend().FailNext(0);
  }
  if (is_stepped()) {
    scheduler_->Settle();
    while (scheduler_->num_readers() > 0) {
      scheduler_->ResumeReader(0);
      scheduler_->Settle();
    }
  }
  if (is_cluster()) Heal();
  EndWaits();
  for (uint32_t at = 0; at < plan_.spaces.size(); ++at) {
    Take({.verb = Verb::kPull,
          .space = static_cast<uint8_t>(at),
          .keys = (1 << kNumKeys) - 1});
  }
  EndWaits();
  CheckWatches();
  CheckSteps();
  {
    MutexLock lock(&mutex_);
    CheckWaits("at the end");
    for (const AttemptPtr& attempt : under_way_) {
      Find(absl::StrCat("never answered: ", attempt->call->what));
    }
    if (finding_ && is_stepped()) return;
    // What is remembered of rounds counts as the namespace's.
    for (const auto& server : servers_) server->saved.reset();
  }
  RemoveAll();
  {
    MutexLock lock(&mutex_);
    if (finding_ && is_stepped()) return;
  }
  OnAllServers([](Server& server) { server.Stop(); });
}

// Removes the keys and then the namespaces: nothing is left of them.
void World::RemoveAll() {
  OnAllServers([this](Server& server) { RemoveKeys(server); });
  if (is_stepped()) {
    CheckBudgets(/*is_empty=*/true);
    if (!is_cluster()) {
      Run([this] { CheckHeadroom(servers_[0]->store(), spans_); });
      scheduler_->Settle();
    }
  }
  OnAllServers([this](Server& server) {
    std::vector<std::string> names = {std::string(kMembers)};
    for (const SpacePlan& each : plan_.spaces) names.push_back(each.name);
    for (const std::string& name : names) {
      testing::MakeNow(server.store(), testing::RemoveOf(name))
          .IgnoreError();  // as above
    }
  });
  if (!is_stepped()) return;
  MutexLock lock(&mutex_);
  for (const auto& server : servers_) {
    const uint64_t used = server->store().used_bytes();
    // A dead one may be in a move that nobody settles.
    if (server->is_dead || used == server->empty_bytes()) continue;
    Find(absl::StrCat("all namespaces are gone, and the store has ", used,
                      " bytes; it had ", server->empty_bytes()));
  }
  if (scheduler_->num_ready() > 0) Find("a thread never comes to its end");
}

void World::OnAllServers(const std::function<void(Server&)>& work) {
  for (const auto& server : servers_) {
    Run([&server, work] { work(*server); });
    if (is_stepped()) scheduler_->Settle();
  }
}

}  // namespace tensorkv::swarm
