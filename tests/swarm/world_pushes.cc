// How the world pushes, and what it makes of the answers.

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/once_calls.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/random.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

// Divisible by the number of workers that any round lacks.
constexpr int kUnit = 12;
// Its neighbours are whole even numbers apart: what is added to it is lost.
constexpr double kLarge = 1 << 28;
constexpr uint32_t kManyEntries = 400;

std::string TextOf(const absl::StatusOr<PushReply>& reply) {
  if (!reply.ok()) return reply.status().ToString();
  std::string text;
  for (const PushResult& each : reply->results) {
    absl::StrAppend(&text, each.version, "/", each.step,
                    each.repeated ? "r " : " ");
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

void World::AddEntries(const Action& action, uint32_t key, bool with_rows,
                       PushRequest& request, Contribution& contribution) {
  const Space& space = spaces_[action.space];
  Random random(uint64_t{action.number} * kNumKeys + key);
  if (plan_.has_skips && random.OneIn(4)) {
    contribution.skips = true;
    request.entries.push_back({.key = KeyName(key), .skip = true});
    return;
  }
  const DType dtype = KeyDType(space.plan, key);
  const auto add = [&](const Elements& elements) {
    for (int i = 0; i < kNumElements; ++i) {
      contribution.elements[i] += elements[i];
    }
    request.entries.push_back(
        {.key = KeyName(key), .tensor = TensorOf(elements, dtype)});
  };
  if (with_rows) {
    return AddRows(random, KeyName(key), dtype, kUnit, request, contribution);
  }
  if (plan_.has_encodings && dtype == DType::kF32 && random.OneIn(2)) {
    return AddEncoded(random, KeyName(key), kUnit, request, contribution);
  }
  Elements elements = {};
  if (space.plan.has_infinities() && dtype == DType::kF32 && random.OneIn(6)) {
    // It is refused, or taken for nothing.
    elements[0] = std::numeric_limits<double>::infinity();
    contribution.skips = true;
    request.entries.push_back(
        {.key = KeyName(key), .tensor = TensorOf(elements, dtype)});
    return;
  }
  for (double& each : elements) each = kUnit * random.Between(-3, 3);
  if (plan_.has_cancelling_entries && dtype == DType::kF32 && random.OneIn(2)) {
    Elements large = {};
    large.fill(kLarge);
    add(large);
    large.fill(-kLarge);
    add(large);
  }
  add(elements);
  if (!plan_.has_long_calls || !random.OneIn(3)) return;
  for (uint32_t i = 0; i < kManyEntries; ++i) add({});
}

void World::MakeEntries(const Action& action, uint32_t key, bool with_rows,
                        PushRequest& request, Contribution& contribution) {
  const size_t first = request.entries.size();
  AddEntries(action, key, with_rows, request, contribution);
  if (!spaces_[action.space].plan.has_means()) return;
  // So that products are exact.
  constexpr double kWeights[] = {0, 0.5, 1, 1, 2, 3};
  Random random(~(uint64_t{action.number} * kNumKeys + key));
  const double weight = kWeights[random.Below(std::size(kWeights))];
  for (size_t i = first; i < request.entries.size(); ++i) {
    request.entries[i].weight = weight;
  }
  contribution.weight = weight;
  for (double& element : contribution.elements) element *= weight;
  contribution.skips |= weight == 0;
}

PushRequest World::PushOf(const Action& action, Call& call, bool with_rows) {
  Space& space = spaces_[action.space];
  PushRequest request;
  request.name_space = space.plan.name;
  request.call_id = call.id;
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    if ((action.keys >> key & 1) == 0) continue;
    const auto contribution = std::make_shared<Contribution>();
    MakeEntries(action, key, with_rows, request, *contribution);
    call.contributions[key] = contribution;
  }
  return request;
}

// Nobody's push, or that of a worker who keeps no order.
void World::PushFreely(const Action& action) {
  bool as_worker = false;
  {
    MutexLock lock(&mutex_);
    const Space& space = spaces_[action.space];
    as_worker = space.plan.is_group();
    const Worker& worker = space.members[action.actor].worker;
    if (as_worker &&
        (space.plan.is_orderly || worker.rank >= space.plan.num_ranks())) {
      return;
    }
  }
  PushAs({action}, as_worker);
}

// Pushes as the actor's worker, or in an async namespace as nobody; of one
// step, however many servers have the keys.
void World::PushAs(const std::vector<Action>& parts, bool as_worker) {
  std::vector<CallPtr> calls;
  {
    MutexLock lock(&mutex_);
    for (const Action& part : parts) {
      calls.push_back(PreparePush(part, as_worker));
    }
  }
  for (const CallPtr& call : calls) Run([call] { call->make(call); });
}

CallPtr World::PreparePush(const Action& action, bool as_worker) {
  Space& space = spaces_[action.space];
  Member& member = space.members[action.actor];
  const bool pulls = action.verb == Verb::kPushPull ||
                     (action.verb == Verb::kWork && action.how % 4 == 0);
  const bool with_rows =
      action.verb == Verb::kPushRows ||
      (action.verb == Verb::kWork && plan_.has_rows && action.how % 4 == 1);
  const CallPtr call = NewCall(action, /*changes=*/true);
  PushRequest request = PushOf(action, *call, with_rows);
  if (!pulls) {
    MakeDeltas(action, request);
    PublishWith(action, request);
    PublishPart(action, *call, request);
  }
  if (as_worker) {
    request.worker = member.worker;
    request.step = member.next;
    const Step back = 1 + action.how / 16 % 6;
    call->is_again = space.plan.config.mode == Mode::kSync && !is_cluster() &&
                     action.how % 16 == 13 && back < member.next;
    if (call->is_again) request.step -= back;
    // Who does not keep the order may push any step.
    if (!space.plan.is_orderly && action.how % 8 == 7) {
      request.step += action.how / 8 % 4;
    }
    ++member.num_pushes;
    const uint32_t rank = request.worker->rank;
    Step& most = space.most_reached[space.PlaceOf(action.actor, rank)];
    most = std::max(most, request.step);
    for (const auto& [key, contribution] : call->contributions) {
      contribution->step = request.step;
      contribution->rank = rank;
      space.arrivals.try_emplace({key, request.step});
    }
  }
  call->is_compared = !pulls;
  call->make = [this, request = std::move(request), as_worker,
                pulls](const CallPtr& made) {
    MakePush(made, request, as_worker, pulls);
  };
  return call;
}

void World::MakePush(const CallPtr& call, const PushRequest& request,
                     bool as_worker, bool pulls) {
  CallContext context;
  ReplyCallback<PushReply> pushed;
  ReplyCallback<PullReply> pulled;
  {
    MutexLock lock(&mutex_);
    const AttemptPtr attempt = Begin(call, /*blocks=*/false);
    context = ContextOf(*attempt);
    std::vector<uint32_t> keys;
    for (const PushEntry& entry : request.entries) {
      keys.push_back(KeyOf(entry.key));
    }
    if (call->generation == spaces_[call->space].generation) {
      for (const auto& [key, contribution] : call->contributions) {
        if (contribution->fate == Contribution::Fate::kIn) continue;
        contribution->fate = Contribution::Fate::kPending;
        spaces_[call->space].ledgers[key].Add(contribution);
      }
    }
    const Step step = request.step;
    RecordContributed(*attempt, step);
    pushed =
        Ending<PushReply>(attempt, [this, attempt, as_worker, step, keys](
                                       const absl::StatusOr<PushReply>& reply) {
          EndPush(attempt, as_worker, step, keys, reply);
        });
    if (pulls) {
      pulled = Ending<PullReply>(
          attempt, [this, attempt, as_worker, step,
                    keys](const absl::StatusOr<PullReply>& reply) {
            EndPushPull(attempt, as_worker, step, keys, reply);
          });
    }
  }
  const CallDispatch& front = At(*call).front();
  if (pulls) {
    return front.Make(PushPullRequest{request}, context, std::move(pulled));
  }
  front.Make(request, context, std::move(pushed));
}

namespace {

// What becomes of contributions whose call has failed: it had no effect, unless
// a device has failed between some of them and others, or an earlier attempt
// is under way.
Contribution::Fate FateOfFailed(const Call& call, bool is_mirrored,
                                const absl::Status& status) {
  // What has failed or ended here may count at other servers.
  if (is_mirrored) return Contribution::Fate::kMaybe;
  const bool was_refused = ReasonOf(status) != Reason::kUnspecified ||
                           absl::IsInvalidArgument(status);
  if (call.num_under_way > 0) return Contribution::Fate::kPending;
  return was_refused ? Contribution::Fate::kOut : Contribution::Fate::kMaybe;
}

// Nobody knows whether what has ended while a key is made anew, or removed, was
// before that or after it.
void CountAsChanging(Space& space, const Call& call) {
  for (const auto& [key, contribution] : call.contributions) {
    if (space.num_changing[key] > 0) space.is_contended[key] = true;
  }
}

}  // namespace

void World::EndPush(const AttemptPtr& attempt, bool as_worker, Step step,
                    const std::vector<uint32_t>& keys,
                    const absl::StatusOr<PushReply>& reply) {
  Call& call = *attempt->call;
  const bool is_first = call.answer.empty();
  EndAttempt(attempt, reply.status(), TextOf(reply));
  Space& space = spaces_[call.space];
  if (call.generation != space.generation) return;
  if (space.plan.config.mode == Mode::kSync) CountAsChanging(space, call);
  if (is_first && !reply.ok()) {
    for (const auto& [key, contribution] : call.contributions) {
      contribution->fate =
          FateOfFailed(call, plan_.is_mirrored, reply.status());
    }
  }
  if (is_first && reply.ok()) RecordPush(*attempt, keys, *reply);
  if (ReasonOf(reply.status()) == Reason::kSnapshotNumberPassed) {
    PassPart(call);
  }
  if (as_worker) EndAttemptOfWork(*attempt, step, reply.status());
}

void World::RecordPush(const Attempt& attempt,
                       const std::vector<uint32_t>& keys,
                       const PushReply& reply) {
  const Call& call = *attempt.call;
  Space& space = spaces_[call.space];
  const bool is_sync = space.plan.config.mode == Mode::kSync;
  WholeCall whole = {call.space, call.generation, call.what, {}};
  for (size_t i = 0; i < keys.size() && i < reply.results.size(); ++i) {
    const PushResult& result = reply.results[i];
    Contribution& contribution = *call.contributions.at(keys[i]);
    if (result.repeated) {
      contribution.fate = Contribution::Fate::kOut;
      continue;
    }
    contribution.fate = Contribution::Fate::kIn;
    if (is_sync && result.step != contribution.step &&
        (result.step < contribution.step || !space.plan.carries())) {
      Find(absl::StrCat("a push joins another round: ", call.what, ": step ",
                        result.step, ", expected ", contribution.step));
    }
    if (is_sync || contribution.skips) continue;
    contribution.version = result.version;
    whole.versions[keys[i]] = result.version;
    if (result.version <= call.ceilings[keys[i]]) {
      Find(absl::StrCat("a push makes a version that was there: ", call.what,
                        ": ", result.version));
    }
    RaiseFloor(space, call.server, keys[i], result.version);
  }
  if (reply.published && call.part_of > 0) {
    RecordPart(call, *reply.published, whole.versions);
  } else if (reply.published) {
    RecordPublished(call.space, reply.published->number, whole.versions);
  }
  if (whole.versions.size() > 1) whole_calls_.push_back(std::move(whole));
}

void World::EndPushPull(const AttemptPtr& attempt, bool as_worker, Step step,
                        const std::vector<uint32_t>& keys,
                        const absl::StatusOr<PullReply>& reply) {
  Call& call = *attempt->call;
  EndAttempt(attempt, reply.status(), reply.status().ToString());
  Space& space = spaces_[call.space];
  if (call.generation != space.generation) return;
  CountAsChanging(space, call);
  for (const auto& [key, contribution] : call.contributions) {
    contribution->fate = call.num_under_way > 0 ? Contribution::Fate::kPending
                                                : Contribution::Fate::kMaybe;
  }
  if (reply.ok()) ObserveAll(*attempt, keys, *reply);
  if (as_worker) EndAttemptOfWork(*attempt, step, reply.status());
}

// A worker goes on once no attempt of its push is under way.
void World::EndAttemptOfWork(const Attempt& attempt, Step step,
                             const absl::Status& status) {
  Call& call = *attempt.call;
  const uint32_t rank = call.contributions.begin()->second->rank;
  if (status.ok()) RecordArrival(attempt, step);
  RecordContributed(attempt, step);
  CheckAskedAgain(attempt, rank, status);
  CheckRemembered(attempt, rank, status);
  CheckKeptOut(attempt, rank, step, status);
  if (call.has_ended_work) return;
  if (call.num_ended++ == 0 || !call.work.ok()) call.work = status;
  if (call.num_under_way > 0) return;
  call.has_ended_work = true;
  EndWork(call, step, call.work);
}

namespace {

// The worker has nothing more to push of the step for these keys.
void EndStep(const Space& space, Member& member, uint8_t keys, Step step) {
  if (member.next != step) return;
  member.pushed |= keys;
  const bool is_whole = member.pushed == (1 << kNumKeys) - 1;
  if (is_whole || !space.plan.is_orderly) member.GoTo(step + 1);
}

}  // namespace

// What a good worker makes of the answer to its push.
void World::EndWork(const Call& call, Step step, const absl::Status& status) {
  Space& space = spaces_[call.space];
  Member& member = space.members[call.actor];
  --member.num_pushes;
  const uint32_t rank = call.contributions.begin()->second->rank;
  if (status.ok()) {
    // Unless somebody else has the rank by now, and its name is forgotten.
    if (space.plan.is_group() || space.last_actor[rank] == call.actor) {
      Step& reached = space.reached[space.PlaceOf(call.actor, rank)];
      reached = std::max(reached, step);
    }
    return EndStep(space, member, call.keys, step);
  }
  const Reason reason = ReasonOf(status);
  const bool may_come_late = !space.plan.is_whole();
  const bool is_wrong =
      !call.is_again &&
      (reason == Reason::kStepGap || reason == Reason::kContributionExists ||
       (reason == Reason::kStepClosed && !may_come_late));
  if (is_stepped() && space.plan.is_orderly && is_wrong &&
      member.worker.rank == rank) {
    Find(absl::StrCat("a worker that does as it is told is refused: ",
                      call.what, ", step ", step, ": ", status.message()));
  }
  if (reason == Reason::kLeaseLost || reason == Reason::kNotMember) {
    member.has_joined = false;
  } else if (reason == Reason::kStepClosed) {
    const uint32_t key = KeyOf(ErrorInfoOf(status)->metadata.at("key"));
    EndStep(space, member, 1 << key, step);
  } else if (reason == Reason::kRoundFailed && !space.plan.joins) {
    // Nobody tells who has not joined; the error names the step.
    const auto info = ErrorInfoOf(status);
    uint64_t owed = 0;
    if (absl::SimpleAtoi(info->metadata.at("step"), &owed)) {
      member.GoTo(owed);
    }
  } else if (space.plan.joins) {
    member.must_ask = true;
  }
}

void World::Work(const Action& action) {
  Action next = action;
  enum class Do { kNothing, kJoin, kAsk, kPush } what = Do::kPush;
  {
    MutexLock lock(&mutex_);
    Space& space = spaces_[action.space];
    const Member& member = space.members[action.actor];
    const bool is_async = space.plan.config.mode == Mode::kAsync;
    if (space.plan.is_orderly) {
      next.keys = ((1 << kNumKeys) - 1) & ~member.pushed;
    }
    if (member.num_pushes > 0 || !space.exists) {
      what = Do::kNothing;
    } else if (space.plan.joins) {
      if (!member.has_joined) what = Do::kJoin;
      if (member.has_joined && member.must_ask) what = Do::kAsk;
    } else if (is_async || action.actor >= space.plan.config.num_workers) {
      what = Do::kNothing;
    }
  }
  if (what == Do::kJoin) return Join(action, 0);
  if (what == Do::kAsk) return KeepAlive(action);
  if (what == Do::kPush) PushAs(PartsOf(next), /*as_worker=*/true);
}

}  // namespace tensorkv::swarm
