// How the world creates, reads and deletes keys, and asks for all else.

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/once_calls.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/random.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

// Only keys of Rule::kMomentum have it.
constexpr char kState[] = "momentum";

std::vector<uint32_t> KeysOf(const Action& action) {
  std::vector<uint32_t> keys;
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    if (action.keys >> key & 1) keys.push_back(key);
  }
  return keys;
}

std::string TextOf(const absl::StatusOr<InitReply>& reply) {
  if (!reply.ok()) return reply.status().ToString();
  std::string text = "versions";
  for (const Version version : reply->versions) {
    absl::StrAppend(&text, " ", version);
  }
  return text;
}

}  // namespace

void World::Init(const Action& action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    const Space& space = spaces_[action.space];
    InitRequest request;
    request.name_space = space.plan.name;
    // What is there stays in order where workers keep it.
    request.on_existing = space.plan.is_orderly
                              ? OnExisting::kKeep
                              : static_cast<OnExisting>(action.how % 3);
    std::map<uint32_t, Elements> values;
    for (const uint32_t key : KeysOf(action)) {
      Random random(uint64_t{action.number} * kNumKeys + key);
      Elements& elements = values[key];
      for (double& each : elements) each = random.Between(-9, 9);
      request.entries.push_back(
          {KeyName(key), TensorOf(elements, KeyDType(space.plan, key))});
    }
    call = NewCall(action, /*changes=*/true);
    request.call_id = call->id;
    call->make = [this, request, values](const CallPtr& made) {
      AttemptPtr attempt;
      CallContext context;
      ReplyCallback<InitReply> done;
      {
        MutexLock lock(&mutex_);
        attempt = Begin(made, /*blocks=*/false);
        context = ContextOf(*attempt);
        done = Ending<InitReply>(
            attempt, [this, attempt, on_existing = request.on_existing,
                      values](const absl::StatusOr<InitReply>& reply) {
              EndInit(attempt, on_existing, values, reply);
            });
        Space& space = spaces_[made->space];
        if (made->generation == space.generation && !plan_.is_mirrored) {
          for (const auto& [key, value] : values) BeginChange(space, key);
        }
      }
      At(*made).front().Make(request, context, std::move(done));
    };
  }
  Run([call] { call->make(call); });
}

void World::EndInit(const AttemptPtr& attempt, OnExisting on_existing,
                    const std::map<uint32_t, Elements>& values,
                    const absl::StatusOr<InitReply>& reply) {
  const Call& call = *attempt->call;
  const bool is_first = call.answer.empty();
  EndAttempt(attempt, reply.status(), TextOf(reply));
  Space& space = spaces_[call.space];
  if (call.generation != space.generation) return;
  if (plan_.is_mirrored) {
    if (reply.ok()) EndInitMirrored(call, values, *reply);
    return;
  }
  size_t entry = 0;
  for (const auto& [key, value] : values) {
    const size_t at = entry++;
    const Known before = attempt->known_before[key];
    if (reply.ok() && is_first && on_existing == OnExisting::kReplace) {
      if (!attempt->is_repeat) space.gone[key] = attempt->moment;
      space.gone_by[key] = ++moment_;
    }
    const bool is_alone = EndChange(space, key);
    if (!is_alone) continue;
    space.keys[key] = before;
    if (!reply.ok() || !is_first) continue;
    if (on_existing == OnExisting::kFail && before == Known::kYes) {
      Find(absl::StrCat("created although it was there: ", call.what));
    }
    space.keys[key] = Known::kYes;
    const Version version = reply->versions[at];
    RaiseFloor(space, call.server, key, version);
    if (before == Known::kYes && on_existing == OnExisting::kKeep) {
      continue;
    }
    if (before == Known::kUnknown && on_existing == OnExisting::kKeep) {
      space.ledgers[key].Forget();
      continue;
    }
    if (version <= call.ceilings[key]) {
      Find(absl::StrCat("a new value has a version that was there: ", call.what,
                        ": ", version));
    }
    space.ledgers[key].Begin(version, value);
  }
}

void World::Pull(const Action& action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    const Space& space = spaces_[action.space];
    PullRequest request;
    request.name_space = space.plan.name;
    const bool waits = action.verb == Verb::kWaitingPull;
    request.wait_for_keys = waits;
    const bool is_whole = action.verb != Verb::kPullRows;
    if (is_whole && action.how / 8 % 8 == 1) request.dtype = DType::kBF16;
    if (action.verb == Verb::kWorkerPull && space.plan.is_group()) {
      request.worker = space.members[action.actor].worker;
    }
    for (const uint32_t key : KeysOf(action)) {
      PullEntry entry = {.key = KeyName(key)};
      if (waits && action.how % 2) {
        entry.min_version = space.floors[key] + action.how / 2 % 3;
      }
      Random random(uint64_t{action.number} * kNumKeys + key);
      if (action.verb == Verb::kPullRows) entry.rows = ChooseRows(random);
      request.entries.push_back(std::move(entry));
    }
    if (is_whole) ShowHeld(action, request);
    call = NewCall(action, /*changes=*/false);
    SetRead(*call, request);
  }
  Run([call] { call->make(call); });
}

template <typename Request>
void World::SetRead(Call& call, const Request& request) {
  call.ask_again = [this, request](const Call& made, const CallContext& in,
                                   auto done) {
    At(made).front().Make(request, in,
                          [done](const absl::StatusOr<PullReply>& reply) {
                            done(reply.status());
                          });
  };
  call.make = [this, request](const CallPtr& made) {
    CallContext context;
    ReplyCallback<PullReply> done;
    {
      MutexLock lock(&mutex_);
      const AttemptPtr attempt = Begin(made, /*blocks=*/false);
      context = ContextOf(*attempt);
      done = Ending<PullReply>(
          attempt,
          [this, attempt, request](const absl::StatusOr<PullReply>& reply) {
            EndRead(attempt, request, reply);
          });
    }
    At(*made).front().Make(request, context, std::move(done));
  };
}

template <typename Request>
void World::EndRead(const AttemptPtr& attempt, const Request& request,
                    const absl::StatusOr<PullReply>& reply) {
  EndAttempt(attempt, reply.status(), "");
  Space& space = spaces_[attempt->call->space];
  if (attempt->call->generation != space.generation) return;
  if (request.worker) {
    CheckAskedAgain(*attempt, request.worker->rank, reply.status());
  }
  if (!reply.ok()) {
    if (ReasonOf(reply.status()) != Reason::kKeyNotFound) return;
    const std::string key = ErrorInfoOf(reply.status())->metadata["key"];
    const uint32_t number = KeyOf(key);
    if (attempt->known_before[number] == Known::kYes &&
        space.keys[number] == Known::kYes && space.plan.is_orderly) {
      Find(absl::StrCat("a key is gone: ", attempt->call->what));
    }
    return;
  }
  if constexpr (std::is_same_v<Request, PullRequest>) {
    CheckPulled(*attempt, request,
                MakeWhole(attempt->call->space, request, *reply));
  }
}

void World::CheckPulled(const Attempt& attempt, const PullRequest& request,
                        const PullReply& reply) {
  if (request.entries[0].rows || request.dtype != DType::kUnknown) {
    return CheckParts(attempt, request, reply);
  }
  std::vector<uint32_t> keys;
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const PullEntry& entry = request.entries[i];
    keys.push_back(KeyOf(entry.key));
    if (reply.values[i].version < entry.min_version) {
      Find(absl::StrCat("older than was asked for: ", attempt.call->what));
    }
  }
  ObserveAll(attempt, keys, reply);
}

void World::GetState(const Action& action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    GetStateRequest request = {.name_space = spaces_[action.space].plan.name};
    for (const uint32_t key : KeysOf(action)) {
      request.entries.push_back({KeyName(key), kState});
    }
    call = NewCall(action, /*changes=*/false);
    SetRead(*call, request);
  }
  Run([call] { call->make(call); });
}

void World::SetState(const Action& action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    call = NewCall(action, /*changes=*/true);
    SetStateRequest request = {.name_space = spaces_[action.space].plan.name,
                               .call_id = call->id};
    const std::vector<uint32_t> keys = KeysOf(action);
    for (const uint32_t key : keys) {
      Random random(uint64_t{action.number} * kNumKeys + key);
      Elements elements;
      for (double& each : elements) each = random.Between(-9, 9);
      request.entries.push_back(
          {KeyName(key), kState, TensorOf(elements, DType::kF32)});
    }
    call->make = [this, request, keys](const CallPtr& made) {
      CallContext context;
      ReplyCallback<SetStateReply> done;
      {
        MutexLock lock(&mutex_);
        const AttemptPtr attempt = Begin(made, /*blocks=*/false);
        context = ContextOf(*attempt);
        done = Ending<SetStateReply>(
            attempt,
            [this, attempt, keys](const absl::StatusOr<SetStateReply>& reply) {
              EndSetState(attempt, keys, reply);
            });
        Space& space = spaces_[made->space];
        if (made->generation == space.generation) {
          for (const uint32_t key : keys) BeginChange(space, key);
        }
      }
      At(*made).front().Make(request, context, std::move(done));
    };
  }
  Run([call] { call->make(call); });
}

// Nobody tells between which updates it was.
void World::EndSetState(const AttemptPtr& attempt, const Keys& keys,
                        const absl::StatusOr<SetStateReply>& reply) {
  const Call& call = *attempt->call;
  EndAttempt(attempt, reply.status(), TextOf(reply));
  Space& space = spaces_[call.space];
  if (call.generation != space.generation) return;
  for (const uint32_t key : keys) {
    if (EndChange(space, key)) space.keys[key] = attempt->known_before[key];
    if (space.plan.rule == Rule::kMomentum) space.ledgers[key].Forget();
  }
}

void World::Ask(const CallPtr& call, std::function<absl::Status()> ask,
                std::function<void(const absl::Status&)> end) {
  // Others may repeat the call already.
  {
    MutexLock lock(&mutex_);
    call->is_bound = true;
    call->make = [this, ask = std::move(ask),
                  end = std::move(end)](const CallPtr& made) {
      AttemptPtr attempt;
      {
        MutexLock lock(&mutex_);
        attempt = Begin(made, /*blocks=*/true);
      }
      absl::Status status = ask();
      MutexLock lock(&mutex_);
      if (attempt->is_lost) status = ServerIsGone();
      const bool is_first = made->answer.empty();
      EndAttempt(attempt, status, status.ToString());
      if (end && is_first &&
          made->generation == spaces_[made->space].generation) {
        end(status);
      }
    };
  }
  Run([call] { call->make(call); });
}

void World::Delete(const Action& action) {
  CallPtr call;
  DeleteRequest request;
  const uint32_t at = action.space;
  {
    MutexLock lock(&mutex_);
    Space& space = spaces_[at];
    if (space.plan.is_orderly) return;
    call = NewCall(action, /*changes=*/true);
    request.set_namespace_(space.plan.name);
    if (call->id) SetCallId(*call->id, request);
    request.set_allow_missing(true);
    for (const uint32_t key : KeysOf(action)) request.add_keys(KeyName(key));
  }
  const auto keys = KeysOf(action);
  Ask(
      call,
      [this, at, request, keys, call, server = servers_[action.server].get(),
       call_generation = call->generation] {
        uint64_t moment = 0;
        {
          MutexLock lock(&mutex_);
          Space& space = spaces_[at];
          moment = ++moment_;
          if (space.generation == call_generation) {
            for (const uint32_t key : keys) BeginChange(space, key);
          }
        }
        const absl::Status status =
            server->front().MakeAndWait(request).status();
        MutexLock lock(&mutex_);
        Space& space = spaces_[at];
        if (space.generation != call_generation) return status;
        for (const uint32_t key : keys) {
          space.ledgers[key].Forget();
          EndChange(space, key);
          if (!status.ok() || call->num_attempts > 1) continue;
          space.gone[key] = moment;
          space.gone_by[key] = ++moment_;
        }
        return status;
      },
      // A repeat of it deletes nothing.
      [this, at, keys](const absl::Status& status) {
        for (const uint32_t key : keys) {
          if (status.ok() && spaces_[at].num_changing[key] == 0) {
            spaces_[at].keys[key] = Known::kNo;
          }
        }
      });
}

void World::Look(const Action& action) {
  CallPtr call;
  std::string name;
  std::array<Known, kNumKeys> was;
  Versions floors;
  uint64_t num_changes = 0;
  uint64_t num_rulings = 0;
  const CallDispatch* const front = &servers_[action.server]->front();
  {
    MutexLock lock(&mutex_);
    Space& space = spaces_[action.space];
    call = NewCall(action, /*changes=*/false);
    name = space.plan.name;
    was = space.keys;
    floors = space.FloorsOf(action.server);
    num_changes = num_changes_;
    num_rulings = space.num_ruling > 0 ? UINT64_MAX : space.num_rulings;
  }
  const auto check = [=, this](const auto& reply, bool is_whole) {
    if (!reply.ok()) return reply.status();
    MutexLock lock(&mutex_);
    if (num_changes != num_changes_) return reply.status();
    CheckListed(*call, was, floors, reply->keys(), is_whole, num_rulings);
    return reply.status();
  };
  if (action.verb == Verb::kList) {
    ListRequest request;
    request.set_namespace_(name);
    return Ask(
        call,
        [front, request, check] {
          return check(front->MakeAndWait(request), true);
        },
        nullptr);
  }
  StatRequest request;
  request.set_namespace_(name);
  request.set_compute_digests(action.how % 2 > 0);
  for (const uint32_t key : KeysOf(action)) request.add_keys(KeyName(key));
  Ask(
      call,
      [front, request, check] {
        return check(front->MakeAndWait(request), false);
      },
      nullptr);
}

}  // namespace tensorkv::swarm
