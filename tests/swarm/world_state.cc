#include "tests/swarm/world_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/once_calls.h"
#include "tests/swarm/elements.h"
#include "tests/testing/namespace_requests.h"

namespace tensorkv::swarm {
namespace {

constexpr size_t kMostCallsRemembered = 12;
constexpr uint64_t kValueBytes = kNumElements * sizeof(float);

// Whether the verb leaves rounds as they are, or only brings contributions.
bool IsCalm(Verb verb) {
  switch (verb) {
    case Verb::kInit:
    case Verb::kDelete:
      return false;
    case Verb::kList:
    case Verb::kNamedSnapshot:
    case Verb::kWatch:
    case Verb::kKeepAlive:
    case Verb::kBarrier:
    case Verb::kMove:
      return true;
    default:
      return IsOfKeys(verb);
  }
}

// Returns what the actor tells with its last call: the lowest of its calls that
// it may repeat or, if it tells all, whose answer it lacks. In that case calls
// come again that it has told to have the answers of.
uint64_t AnsweredBelow(const std::vector<CallPtr>& made, bool tells_all) {
  for (const CallPtr& call : made) {
    const bool is_answered = !call->answer.empty() && call->num_under_way == 0;
    if (!tells_all || !is_answered) return call->id->sequence;
  }
  return made.back()->id->sequence;
}

}  // namespace

WorldState::WorldState(const Plan& plan, Scheduler* scheduler)
    : plan_(plan),
      scheduler_(scheduler),
      sums_(scheduler == nullptr
                ? nullptr
                : std::make_unique<ScheduledTasks>(scheduler)) {}

// --- The ways of every call --------------------------------------------------

void WorldState::Run(Scheduler::Task task) {
  ++num_calls_;
  if (is_stepped()) return scheduler_->Start(std::move(task));
  std::move(task)();
}

void WorldState::Advance(absl::Duration by) {
  Run([this, by] {
    {
      MutexLock lock(&mutex_);
      if (by > absl::ZeroDuration()) BeginThreat();
    }
    alarms_.Advance(by);
    MutexLock lock(&mutex_);
    if (by > absl::ZeroDuration()) EndThreat();
  });
}

CallPtr WorldState::NewCall(const Action& action, bool changes) {
  const auto call = std::make_shared<Call>();
  call->what = ToString(action);
  call->verb = action.verb;
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
  call->id->answered_below = AnsweredBelow(made, action.number % 3 == 0);
  uint64_t& most = answered_below_[action.actor];
  most = std::max(most, call->id->answered_below);
  return call;
}

bool WorldState::IsRemembered(const Call& call) const {
  return !plan_.has_long_calls && call.id &&
         call.id->sequence >= answered_below_[call.actor];
}

AttemptPtr WorldState::Begin(const CallPtr& call, bool blocks) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->call = call;
  attempt->blocks = blocks;
  if (!IsCalm(call->verb)) BeginThreat();
  attempt->moment = ++moment_;
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

CallContext WorldState::ContextOf(const Attempt& attempt) const {
  CallContext context;
  context.timeout = attempt.deadline - alarms_.Now();
  context.cancellation = attempt.cancellation;
  return context;
}

void WorldState::EndAttempt(const AttemptPtr& attempt,
                            const absl::Status& status,
                            const std::string& text) {
  Call& call = *attempt->call;
  if (attempt->has_ended) Find(absl::StrCat("answered twice: ", call.what));
  attempt->has_ended = true;
  if (!IsCalm(call.verb)) EndThreat();
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
  // The values that a PushPull reads may be elsewhere by now.
  const bool may_have_moved = is_cluster() && !call.is_compared;
  const bool is_forgotten = ReasonOf(status) == Reason::kOutcomeUnknown;
  if (call.answer.empty()) {
    call.answer = text;
  } else if (is_forgotten ? IsRemembered(call) && !may_have_moved
                          : call.is_compared && call.answer != text) {
    Find(absl::StrCat("answered differently: ", call.what, ": ", call.answer,
                      ", and then ", text));
  }
}

// --- What is checked ---------------------------------------------------------

void WorldState::Find(absl::string_view what) {
  if (!finding_) finding_ = std::string(what);
}

void WorldState::Observe(Space& space, uint32_t server, uint32_t key,
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

void WorldState::ObserveAll(const Attempt& attempt,
                            const std::vector<uint32_t>& keys,
                            const PullReply& reply) {
  Space& space = spaces_[attempt.call->space];
  for (size_t i = 0; i < keys.size(); ++i) {
    Observe(space, attempt.call->server, keys[i], reply.values[i].version,
            attempt.floors[keys[i]], ElementsOf(reply.values[i].tensor),
            attempt.call->what);
  }
}

void WorldState::RaiseFloor(Space& space, uint32_t server, uint32_t key,
                            Version version) {
  Version& floor = space.FloorsOf(server)[key];
  floor = std::max(floor, version);
  space.ceilings[key] = std::max(space.ceilings[key], version);
}

void WorldState::BeginChange(Space& space, uint32_t key) {
  if (++space.num_changing[key] > 1) space.is_contended[key] = true;
  space.keys[key] = Known::kUnknown;
}

bool WorldState::EndChange(Space& space, uint32_t key) {
  const bool is_alone = !space.is_contended[key] && is_stepped();
  if (--space.num_changing[key] == 0) space.is_contended[key] = false;
  if (!is_alone) space.ledgers[key].Forget();
  return is_alone;
}

void WorldState::StartAnew(Space& space) {
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
  space.taken = {};
  space.told_again = {};
  space.brought = {};
  space.is_restored = false;
  space.rules.emplace();
  space.watched = {};
  space.last_actor.fill(kNumActors);
  for (uint32_t actor = 0; actor < kNumActors; ++actor) {
    space.members[actor] = {.worker = {.rank = actor}};
  }
  for (KeyLedger& ledger : space.ledgers) ledger.Restart();
}

// Rows, and values that were converted, are those of the version that they come
// with.
void WorldState::CheckParts(const Attempt& attempt, const PullRequest& request,
                            const PullReply& reply) {
  const Space& space = spaces_[attempt.call->space];
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const PullEntry& entry = request.entries[i];
    const uint32_t key = KeyOf(entry.key);
    const Version version = reply.values[i].version;
    if (version < attempt.floors[key]) {
      Find(absl::StrCat("a version goes back: ", attempt.call->what, ": ",
                        KeyName(key), " ", version, " after ",
                        attempt.floors[key]));
    }
    const auto known = values_.find({space.uid, key, version});
    if (known == values_.end()) continue;
    const int64_t num_rows = entry.rows ? entry.rows->size() : kNumRows;
    for (int64_t at = 0; at < num_rows * kRowSize; ++at) {
      const int64_t row = at / kRowSize;
      const int64_t from = entry.rows ? (*entry.rows)[row] : row;
      const double had = Converted(
          request.dtype, known->second[from * kRowSize + at % kRowSize]);
      const double is = ElementOf(reply.values[i].tensor, static_cast<int>(at));
      if (had == is) continue;
      Find(absl::StrCat("a part of another version: ", attempt.call->what, ": ",
                        KeyName(key), " version ", version, ", row ", from,
                        ": ", is, ", expected ", had));
    }
  }
}

// Keys that nobody creates or deletes meanwhile are listed if they exist, and
// only then, with no version below what was told before.
void WorldState::CheckListed(
    const Call& call, const std::array<Known, kNumKeys>& was,
    const Versions& floors,
    const google::protobuf::RepeatedPtrField<KeyStatus>& listed, bool is_whole,
    uint64_t num_rulings) {
  Space& space = spaces_[call.space];
  if (call.generation != space.generation || num_moving_ > 0) return;
  if (is_cluster() && !plan_.is_mirrored && !OwnsForSure(call)) return;
  std::array<bool, kNumKeys> is_listed = {};
  for (const KeyStatus& each : listed) {
    const uint32_t key = KeyOf(each.key());
    is_listed[key] = true;
    if (each.version() < floors[key]) {
      Find(absl::StrCat("a version goes back: ", call.what, ": ", each.key(),
                        " ", each.version(), " after ", floors[key]));
    }
    if (num_rulings == space.num_rulings) CheckRule(call, space, each);
    if (!is_stepped() || !space.plan.is_exact || space.num_changing[key] > 0) {
      continue;
    }
    const auto wrong =
        space.ledgers[key].CheckCount(each.version(), each.update_count());
    if (wrong) {
      Find(absl::StrCat("updates are counted wrongly: ", call.what, ": ",
                        each.key(), " ", *wrong));
    }
  }
  for (uint32_t key = 0; is_stepped() && key < kNumKeys; ++key) {
    if (was[key] != space.keys[key] || was[key] == Known::kUnknown) continue;
    const bool exists = was[key] == Known::kYes && (call.keys >> key & 1) > 0;
    if (is_listed[key] == exists || (!is_whole && !is_listed[key])) continue;
    Find(absl::StrCat("listed wrongly: ", call.what, ": ", KeyName(key),
                      exists ? " exists" : " does not exist"));
  }
}

// Whether a worker may be told that step: none that it has not come to, and
// none before what it had to do last.
void WorldState::CheckNextStep(const Call& call, const Space& space,
                               uint32_t rank, Step next) {
  if (!is_stepped() || rank >= kNumActors) return;
  const uint32_t place = space.PlaceOf(call.actor, rank);
  const Step least = space.reached[place];
  const Step most = space.most_reached[place];
  // Who has done nothing begins where the group is.
  if (most == 0) return;
  Step from = std::max<Step>(least, 1);
  Step to = std::max<Step>(most, 1);
  if (space.plan.config.mode == Mode::kAsync) {
    from = least + 1;
    to = most + 1;
  } else if (space.plan.config.mode == Mode::kSync) {
    // A round that has failed, or may fail, is to be made again.
    from = 1;
  }
  // Who has left is done with its last step.
  if (space.has_left[rank]) ++to;
  // Who comes back to a group that goes on without it takes part from the next
  // step on.
  if (space.plan.config.max_workers > 0 || space.plan.may_continue()) return;
  if (next >= from && next <= to) return;
  constexpr absl::string_view kModes[] = {"async", "sync", "bounded"};
  Find(absl::StrCat("a worker is told a wrong step: ",
                    kModes[static_cast<int>(space.plan.config.mode)], ": ",
                    call.what, ": rank ", rank, " has come to step ", least,
                    " (maybe ", most, ") and is told ", next));
}

// REQUIRES: the scheduler has settled.
void WorldState::CheckWaits(absl::string_view when) {
  for (const AttemptPtr& attempt : under_way_) {
    if (attempt->deadline >= alarms_.Now() && !attempt->blocks) continue;
    Find(absl::StrCat(
        attempt->blocks ? "stands still " : "outlives its deadline ", when,
        ": ", attempt->call->what));
  }
}

void WorldState::CheckBudgets(bool is_empty) {
  for (const auto& server : servers_) CheckBudgets(*server, is_empty);
}

// The revision that is told never falls, and where nothing is under way, it is
// that of the last update. REQUIRES: the scheduler has settled, if there is
// one.
void WorldState::CheckRevision(const NamespaceStatus& status) {
  if (is_cluster()) return;
  ToldRevision& told = told_[status.uid()];
  const bool has_updated = status.updates_applied() > told.updates_applied;
  const bool is_quiet = is_stepped() && scheduler_->num_ready() == 0;
  if (status.revision() < told.revision ||
      (is_quiet && has_updated && status.revision() == told.revision)) {
    Find(absl::StrCat("a wrong revision is told: ", status.name(), " had ",
                      told.revision, " after ", told.updates_applied,
                      " updates, and has ", status.revision(), " after ",
                      status.updates_applied()));
  }
  told = {status.revision(), status.updates_applied()};
}

void WorldState::DeleteNamedSnapshots(Server& server,
                                      const std::string& name_space) {
  for (const char* const series : {"s", kPartsSeries}) {
    DeleteSnapshotRequest all;
    all.set_namespace_(name_space);
    all.set_series(series);
    server.store().DeleteSnapshot(
        all, {}, [](const absl::StatusOr<DeleteSnapshotReply>&) {});
  }
}

void WorldState::CheckBudgets(Server& server, bool is_empty) {
  for (const SpacePlan& each : plan_.spaces) {
    if (is_empty) DeleteNamedSnapshots(server, each.name);
    const absl::StatusOr<DescribeNamespaceReply> reply =
        server.store().DescribeNamespace(testing::DescribeOf(each.name), {});
    if (!reply.ok()) continue;
    MutexLock lock(&mutex_);
    CheckRevision(reply->status());
    CheckOpenRounds(each, reply->status());
    CheckMemory(reply->status(), is_empty);
    if (is_empty && reply->status().calls_waiting() > 0) {
      Find(absl::StrCat(each.name, " has ", reply->status().calls_waiting(),
                        " calls that wait, and nobody has made them"));
    }
  }
}

// Each key may have as many rounds open as its namespace allows. Where rounds
// are passed over, whoever is behind may open the first one.
void WorldState::CheckOpenRounds(const SpacePlan& plan,
                                 const NamespaceStatus& status) {
  const uint64_t num_behind = plan.is_whole() ? 0 : plan.num_ranks() - 1;
  const uint64_t most =
      kNumKeys *
      (std::max<uint64_t>(4, plan.config.max_open_rounds) + num_behind);
  const std::optional<uint64_t> awaited =
      MostOpenRounds(spaces_[&plan - plan_.spaces.data()]);
  if (awaited && status.rounds_open() > *awaited) {
    Find(absl::StrCat("rounds stay open that have all they wait for: ",
                      status.rounds_open(), ", expected at most ", *awaited));
  }
  if (status.rounds_open() > most) {
    Find(
        absl::StrCat("more rounds are open than may be: ", status.rounds_open(),
                     " of ", kNumKeys, " keys, expected at most ", most));
  }
}

// Small values take no more than their bytes; what moves takes them again, and
// each open round has room for the next.
void WorldState::CheckMemory(const NamespaceStatus& status, bool is_empty) {
  // What stays of named snapshots: a record of their series.
  constexpr uint64_t kMostSeriesBytes = 2 * 2048;
  const v1::MemoryUse& memory = status.memory();
  const uint64_t num_moments = 2 + num_moving_;
  const uint64_t most =
      is_empty ? 0
               : kValueBytes * (num_moments * kNumKeys + status.rounds_open());
  if (memory.values() > most || memory.state() > most ||
      (is_empty && memory.contributions() > 0)) {
    Find(absl::StrCat("memory is not given back: ", status.name(), " has ",
                      memory.values(), " bytes of values, ", memory.state(),
                      " of states, ", memory.contributions(),
                      " of contributions, and ", status.rounds_open(),
                      " rounds are open; expected at most ", most));
  }
  if (is_empty && memory.retained() > kMostSeriesBytes) {
    Find(absl::StrCat("what snapshots had is not given back: ", status.name(),
                      " has ", memory.retained(), " bytes"));
  }
}

}  // namespace tensorkv::swarm
