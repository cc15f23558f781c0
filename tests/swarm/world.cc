#include "tests/swarm/world.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/once_calls.h"

namespace tensorkv::swarm {
namespace {

// Longer than any lease or grace that a plan has.
constexpr absl::Duration kLongestLease = absl::Seconds(10);
constexpr size_t kMostCallsRemembered = 12;
constexpr uint64_t kValueBytes = kNumElements * sizeof(float);

}  // namespace

World::World(const Plan& plan, Scheduler* scheduler)
    : plan_(plan),
      scheduler_(scheduler),
      sums_(scheduler == nullptr
                ? nullptr
                : std::make_unique<ScheduledTasks>(scheduler)) {
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
  Run([this] { CheckRoom(servers_[0]->store(), rooms_); });
  scheduler_->Settle();
}

// What the servers wait for at their end runs on threads of the scheduler.
World::~World() {
  for (auto& server : servers_) {
    Run([&server] { server = nullptr; });
    if (is_stepped()) scheduler_->Settle();
  }
}

void World::Run(Scheduler::Task task) {
  ++num_calls_;
  if (is_stepped()) return scheduler_->Start(std::move(task));
  std::move(task)();
}

// --- The ways of every call --------------------------------------------------

CallPtr World::NewCall(const Action& action, bool changes) {
  const auto call = std::make_shared<Call>();
  call->what = ToString(action);
  call->actor = action.actor;
  call->space = action.space;
  call->server = action.server;
  call->keys = action.keys;
  call->generation = spaces_[action.space].generation;
  call->timeout = kMostWait;
  if (plan_.has_deadlines && action.number % 2 == 0) {
    call->timeout = absl::Milliseconds(50 + action.number % 2500);
  }
  if (!changes) return call;
  call->id = CallId{absl::StrCat("actor", action.actor),
                    ++last_sequence_[action.actor]};
  std::vector<CallPtr>& made = made_[action.actor];
  made.push_back(call);
  if (made.size() > kMostCallsRemembered) made.erase(made.begin());
  return call;
}

AttemptPtr World::Begin(const CallPtr& call, bool blocks) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->call = call;
  attempt->blocks = blocks;
  attempt->cancellation = std::make_shared<Cancellation>();
  attempt->deadline = alarms_.Now() + call->timeout;
  attempt->floors = spaces_[call->space].FloorsOf(call->server);
  attempt->known_before = spaces_[call->space].keys;
  attempt->is_repeat = call->num_attempts++ > 0;
  if (!attempt->is_repeat) call->ceilings = spaces_[call->space].ceilings;
  if (OwnsForSure(*call)) attempt->owned_since = num_changes_;
  call->last_made = alarms_.Now();
  ++call->num_under_way;
  under_way_.push_back(attempt);
  return attempt;
}

CallContext World::ContextOf(const Attempt& attempt) const {
  CallContext context;
  context.timeout = attempt.deadline - alarms_.Now();
  context.cancellation = attempt.cancellation;
  return context;
}

void World::EndAttempt(const AttemptPtr& attempt, const absl::Status& status,
                       const std::string& text) {
  Call& call = *attempt->call;
  if (attempt->has_ended) Find(absl::StrCat("answered twice: ", call.what));
  attempt->has_ended = true;
  --call.num_under_way;
  std::erase(under_way_, attempt);
  attempt->lose = nullptr;
  CheckRefusal(*attempt, status);
  // A device that fails on the way may leave some keys updated.
  const bool is_partial = absl::StrContains(status.message(), "applied to ");
  if ((absl::IsInternal(status) && !is_partial) || absl::IsUnknown(status)) {
    Find(absl::StrCat(call.what, ": ", status.ToString()));
  }
  const Space& space = spaces_[call.space];
  // A namespace that is not there remembers nothing.
  if (!call.id || MayBeMadeAgain(status) ||
      ReasonOf(status) == Reason::kNamespaceNotFound ||
      call.generation != space.generation) {
    return;
  }
  // A client's latest answer is kept, whatever came of its earlier calls.
  const bool is_latest = call.id->sequence == last_sequence_[call.actor];
  // The values that a PushPull reads may be elsewhere by now.
  const bool may_have_moved = is_cluster() && !call.is_compared;
  const bool is_forgotten = ReasonOf(status) == Reason::kOutcomeUnknown;
  if (call.answer.empty()) {
    call.answer = text;
  } else if (is_forgotten ? is_latest && !may_have_moved
                          : call.is_compared && call.answer != text) {
    Find(absl::StrCat("answered differently: ", call.what, ": ", call.answer,
                      ", and then ", text));
  }
}

// --- What is checked ---------------------------------------------------------

void World::Find(absl::string_view what) {
  if (!finding_) finding_ = std::string(what);
}

void World::Observe(Space& space, uint32_t server, uint32_t key,
                    Version version, Version floor, const Elements& value,
                    absl::string_view by) {
  const auto& [had, is_new] =
      values_.try_emplace({space.uid, key, version}, value);
  if (!is_new && had->second != value) {
    Find(absl::StrCat("one version names two values: ", by, ": ", KeyName(key),
                      " version ", version, ": ", ToString(had->second),
                      " and ", ToString(value)));
  }
  if (version < floor) {
    Find(absl::StrCat("a version goes back: ", by, ": ", KeyName(key), " ",
                      version, " after ", floor));
  }
  RaiseFloor(space, server, key, version);
  // A call under way may have made the key anew already.
  if (!is_stepped() || !space.plan.is_exact || space.num_changing[key] > 0) {
    return;
  }
  const auto wrong = space.ledgers[key].Observe(version, value);
  if (wrong) {
    Find(absl::StrCat("an impossible value: ", by, ": ", KeyName(key), " ",
                      *wrong));
  }
}

void World::RaiseFloor(Space& space, uint32_t server, uint32_t key,
                       Version version) {
  Version& floor = space.FloorsOf(server)[key];
  floor = std::max(floor, version);
  space.ceilings[key] = std::max(space.ceilings[key], version);
}

void World::BeginChange(Space& space, uint32_t key) {
  if (++space.num_changing[key] > 1) space.is_contended[key] = true;
  space.keys[key] = Known::kUnknown;
}

bool World::EndChange(Space& space, uint32_t key) {
  const bool is_alone = !space.is_contended[key] && is_stepped();
  if (--space.num_changing[key] == 0) space.is_contended[key] = false;
  if (!is_alone) space.ledgers[key].Forget();
  return is_alone;
}

void World::StartAnew(Space& space) {
  ++space.generation;
  space.keys = {};
  space.num_changing = {};
  space.is_contended = {};
  space.floors = {};
  space.ceilings = {};
  space.reached = {};
  space.most_reached = {};
  space.has_left = {};
  space.arrivals = {};
  space.rules.emplace();
  space.last_actor.fill(kNumActors);
  for (uint32_t actor = 0; actor < kNumActors; ++actor) {
    space.members[actor] = {.worker = {.rank = actor}};
  }
  for (KeyLedger& ledger : space.ledgers) ledger.Restart();
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
    case Verb::kPullState:
      return Pull(action);
    case Verb::kDelete:
      return Delete(action);
    case Verb::kList:
    case Verb::kStat:
      return Look(action);
    case Verb::kSetRule:
    case Verb::kUnsetRule:
    case Verb::kSetHyperparameters:
      return ChangeRules(action);
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

// What is no call of data.
void World::TakeEvent(const Action& action) {
  switch (action.verb) {
    case Verb::kKeepAlive:
      return KeepAlive(action);
    case Verb::kRejoin:
      return Join(action, /*replaces=*/true);
    case Verb::kLeave:
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
    case Verb::kFailDevice:
      return servers_[action.server]->backend().FailNext(1 + action.how % 2);
    case Verb::kSnapshot:
      return Snapshot(action);
    case Verb::kRestore:
      return Restore(action);
    case Verb::kMove:
      return is_cluster() ? TakeTurn(action) : Move(action);
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
  if (is_cluster() && !plan_.is_mirrored) CheckServing();
}

void World::Advance(absl::Duration by) {
  Run([this, by] { alarms_.Advance(by); });
}

// REQUIRES: the scheduler has settled.
void World::CheckWaits(absl::string_view when) {
  for (const AttemptPtr& attempt : under_way_) {
    if (attempt->deadline >= alarms_.Now() && !attempt->blocks) continue;
    Find(absl::StrCat(
        attempt->blocks ? "stands still " : "outlives its deadline ", when,
        ": ", attempt->call->what));
  }
}

void World::CheckBudgets(bool is_empty) {
  for (const auto& server : servers_) CheckBudgets(*server, is_empty);
}

// Small values take no more than their bytes; a snapshot keeps those of its
// moment, and each open round has room for the next.
void World::CheckBudgets(Server& server, bool is_empty) {
  for (const SpacePlan& each : plan_.spaces) {
    const absl::StatusOr<NamespaceStatus> status =
        server.store().DescribeNamespace(each.name, {});
    if (!status.ok()) continue;
    const MemoryUse& memory = status->memory;
    const uint64_t most_rounds =
        kNumKeys * std::max<uint64_t>(4, each.config.max_open_rounds);
    const uint64_t most =
        is_empty ? 0 : kValueBytes * (2 * kNumKeys + status->rounds_open);
    MutexLock lock(&mutex_);
    const std::optional<uint64_t> open =
        MostOpenRounds(spaces_[&each - plan_.spaces.data()]);
    if (open && status->rounds_open > *open) {
      Find(absl::StrCat("rounds stay open that have all they wait for: ",
                        status->rounds_open, ", expected at most ", *open));
    }
    if (status->rounds_open > most_rounds) {
      Find(absl::StrCat(
          "more rounds are open than may be: ", status->rounds_open, " of ",
          kNumKeys, " keys, expected at most ", most_rounds));
    }
    if (memory.values > most || memory.state > most ||
        (is_empty && memory.contributions > 0)) {
      Find(absl::StrCat("memory is not given back: ", each.name, " has ",
                        memory.values, " bytes of values, ", memory.state,
                        " of states, ", memory.contributions,
                        " of contributions, and ", status->rounds_open,
                        " rounds are open; expected at most ", most));
    }
    if (is_empty && status->calls_waiting > 0) {
      Find(absl::StrCat(each.name, " has ", status->calls_waiting,
                        " calls that wait, and nobody has made them"));
    }
  }
}

// Also those of a cluster that came and were not taken over.
void World::RemoveKeys(Server& server) {
  if (is_cluster()) {
    server.StopMoving();
    server.store().Discard({.num_partitions = 1, .partitions = {0}});
  }
  for (const SpacePlan& each : plan_.spaces) {
    DeleteRequest request = {.name_space = each.name, .allow_missing = true};
    for (uint32_t key = 0; key < kNumKeys; ++key) {
      request.keys.push_back(KeyName(key));
    }
    // It may not be there, or its keys be another server's.
    server.store().Delete(request, {}).IgnoreError();
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
  for (const auto& server : servers_) {
    Run([this, &server] { RemoveKeys(*server); });
  }
  if (is_stepped()) {
    scheduler_->Settle();
    CheckBudgets(/*is_empty=*/true);
    if (!is_cluster()) {
      Run([this] { CheckRoom(servers_[0]->store(), rooms_); });
      scheduler_->Settle();
    }
  }
  for (const auto& server : servers_) {
    Run([this, &server] {
      for (const SpacePlan& each : plan_.spaces) {
        server->store()
            .DeleteNamespace(each.name, {})
            .IgnoreError();  // as above
      }
    });
  }
  if (is_stepped()) scheduler_->Settle();
  {
    MutexLock lock(&mutex_);
    for (const auto& server : servers_) {
      const uint64_t used = server->store().used_bytes();
      if (!is_stepped() || used == server->empty_bytes()) continue;
      Find(absl::StrCat("all namespaces are gone, and the store has ", used,
                        " bytes; it had ", server->empty_bytes()));
    }
    if (is_stepped() && scheduler_->num_ready() > 0) {
      Find("a thread never comes to its end");
    }
    if (finding_ && is_stepped()) return;
  }
  for (const auto& server : servers_) {
    Run([&server] { server->Stop(); });
    if (is_stepped()) scheduler_->Settle();
  }
}

}  // namespace tensorkv::swarm
