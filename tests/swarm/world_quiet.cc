// What must hold when nothing can go on: nobody waits for what is there.

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "contract/placement.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "tensor/tensor.h"
#include "tests/swarm/world_state.h"
#include "tests/testing/namespace_requests.h"

namespace tensorkv::swarm {

// A call that waits is right if the same call, made now, waits too.
// REQUIRES: the scheduler has settled.
void WorldState::CheckAgain() {
  constexpr size_t kMostAsked = 6;
  if (!is_stepped() || scheduler_->num_ready() > 0) return;
  std::vector<AttemptPtr> waiting;
  {
    MutexLock lock(&mutex_);
    for (const AttemptPtr& attempt : under_way_) {
      if (attempt->call->ask_again && !attempt->is_lost) {
        waiting.push_back(attempt);
      }
    }
  }
  // Each takes a while to ask.
  if (waiting.size() > kMostAsked) {
    waiting.erase(waiting.begin(), waiting.end() - kMostAsked);
  }
  for (const AttemptPtr& attempt : waiting) {
    {
      MutexLock lock(&mutex_);
      if (attempt->has_ended) continue;
    }
    CallContext context;
    context.timeout = kMostWait;
    context.cancellation = std::make_shared<Cancellation>();
    Run([this, attempt, context] {
      attempt->call->ask_again(
          *attempt->call, context, [this, attempt](const absl::Status& status) {
            MutexLock lock(&mutex_);
            if (!status.ok()) return;
            Find(
                absl::StrCat("waits for what is there: ", attempt->call->what));
          });
    });
    scheduler_->Settle();
    Run([context] { context.cancellation->Cancel(); });
    scheduler_->Settle();
  }
}

void WorldState::RecordArrival(const Attempt& attempt, Step step) {
  const Call& call = *attempt.call;
  Space& space = spaces_[call.space];
  for (const auto& [key, contribution] : call.contributions) {
    Arrivals& arrivals = space.arrivals[{key, step}];
    arrivals.ranks |= uint64_t{1} << contribution->rank;
    arrivals.last = alarms_.Now();
    // The answer to a repeat may be about a round that has failed since.
    if (attempt.is_repeat) continue;
    // Else the key may have been replaced since.
    if (attempt.moment > space.gone_by[key]) {
      space.taken[{contribution->rank, key, step}] = ++moment_;
    }
    const auto told = space.told_again.find(contribution->rank);
    if (told != space.told_again.end() && told->second.key == key &&
        told->second.step == step) {
      space.told_again.erase(told);
    }
  }
}

void WorldState::RecordContributed(const Attempt& attempt, Step step) {
  Space& space = spaces_[attempt.call->space];
  if (attempt.call->generation != space.generation) return;
  for (const auto& [key, contribution] : attempt.call->contributions) {
    space.brought[{contribution->rank, key, step}] = ++moment_;
  }
}

// A step before the last is asked for where a key has lost what was brought.
void WorldState::CheckStepToRepush(const Space& space, uint32_t rank,
                                   Step next) {
  const NamespaceConfig& config = space.plan.config;
  if (!is_stepped() || is_cluster() || config.mode != Mode::kSync ||
      config.max_workers > 0 || space.is_restored || num_restoring_ > 0 ||
      space.plan.may_continue() || next >= space.reached[rank]) {
    return;
  }
  for (const AttemptPtr& attempt : under_way_) {
    if (!attempt->call->contributions.empty()) return;
  }
  // Or where a round awaits it that others have opened.
  for (const auto& [place, moment] : space.brought) {
    const auto& [by, key, step] = place;
    if (step == next && moment > space.gone[key]) return;
  }
  Find(absl::StrCat("a step is asked for that no key lacks: rank ", rank,
                    " has come to step ", space.reached[rank], " and is told ",
                    next));
}

void WorldState::BeginThreat() {
  ++num_threats_;
  last_threat_ = ++moment_;
}

void WorldState::EndThreat() {
  --num_threats_;
  last_threat_ = ++moment_;
}

// A worker whose contribution was taken is not asked for it again, unless
// something has happened since that fails rounds, or their time is over.
void WorldState::CheckAskedAgain(const Attempt& attempt, uint32_t rank,
                                 const absl::Status& status) {
  if (ReasonOf(status) != Reason::kRoundFailed || !is_stepped() ||
      is_cluster()) {
    return;
  }
  Space& space = spaces_[attempt.call->space];
  const auto info = ErrorInfoOf(status);
  Answered told = {.moment = ++moment_};
  told.key = KeyOf(info->metadata.at("key"));
  if (!absl::SimpleAtoi(info->metadata.at("step"), &told.step)) return;
  space.told_again[rank] = told;
  const auto taken = space.taken.find({rank, told.key, told.step});
  if (taken == space.taken.end() || taken->second > attempt.moment ||
      taken->second < last_threat_ || num_threats_ > 0 || num_restoring_ > 0 ||
      has_failed_device_ || !HasHeadroom(plan_) || space.may_time_out) {
    return;
  }
  Find(absl::StrCat("a worker is asked again for what it has brought: ",
                    attempt.call->what, ": ", status.message()));
}

// What was brought to one of the last rounds is known when it comes again.
void WorldState::CheckRemembered(const Attempt& attempt, uint32_t rank,
                                 const absl::Status& status) {
  const Space& space = spaces_[attempt.call->space];
  const NamespaceConfig& config = space.plan.config;
  if (ReasonOf(status) != Reason::kStepClosed || config.mode != Mode::kSync ||
      !is_stepped() || is_cluster() || space.plan.joins || has_moved_ ||
      has_failed_device_ || attempt.is_repeat || !HasHeadroom(plan_) ||
      space.may_time_out) {
    return;
  }
  const auto info = ErrorInfoOf(status);
  const uint32_t key = KeyOf(info->metadata.at("key"));
  Step step = 0;
  if (!absl::SimpleAtoi(info->metadata.at("step"), &step)) return;
  const auto taken = space.taken.find({rank, key, step});
  if (taken == space.taken.end() || taken->second > attempt.moment ||
      taken->second < space.gone_by[key] || space.num_changing[key] > 0) {
    return;
  }
  const auto num_later =
      std::ranges::count_if(space.arrivals, [&](const auto& each) {
        return each.first.first == key && each.first.second > step;
      });
  const uint32_t most_open =
      config.max_open_rounds > 0 ? config.max_open_rounds : 4;
  if (num_later > most_open) return;
  Find(absl::StrCat("a contribution is forgotten: ", attempt.call->what, ": ",
                    status.message()));
}

// A move waits for what is to be pushed again, and takes it.
void WorldState::CheckKeptOut(const Attempt& attempt, uint32_t rank, Step step,
                              const absl::Status& status) {
  const Space& space = spaces_[attempt.call->space];
  const auto told = space.told_again.find(rank);
  if (ReasonOf(status) != Reason::kKeyMoving || !fenced_ || num_threats_ > 0 ||
      spaces_.size() > 1 || !space.plan.is_orderly ||
      told == space.told_again.end() || told->second.step != step ||
      attempt.moment < fenced_since_ || told->second.moment > fenced_since_ ||
      told->second.moment < last_threat_) {
    return;
  }
  const uint32_t partition = PartitionOf(
      space.plan.name, KeyName(told->second.key), fenced_->num_partitions);
  if (std::ranges::count(fenced_->partitions, partition) == 0) return;
  Find(absl::StrCat("what a move waits for is kept out: ", attempt.call->what,
                    ", step ", step, ": ", status.message()));
}

// How many rounds may be open, as those who push know it; nothing where rounds
// end in other ways too.
std::optional<uint64_t> WorldState::MostOpenRounds(const Space& space) const {
  const NamespaceConfig& config = space.plan.config;
  if (!is_stepped() || scheduler_->num_ready() > 0 || is_cluster() ||
      !HasHeadroom(plan_) || config.mode != Mode::kSync || space.plan.joins ||
      !space.plan.is_orderly || space.plan.is_updated || has_failed_device_ ||
      has_moved_ || space.may_time_out) {
    return std::nullopt;
  }
  uint64_t most = 0;
  uint32_t last = kNumKeys;
  bool waits = false;
  for (const auto& [place, arrivals] : space.arrivals) {
    // A round closes after those before it.
    if (std::exchange(last, place.first) != place.first) waits = false;
    const auto num = static_cast<uint32_t>(std::popcount(arrivals.ranks));
    const bool is_over = arrivals.last + config.quorum_grace <= alarms_.Now();
    waits |= num < config.num_workers &&
             (config.quorum == 0 || num < config.quorum || !is_over);
    if (waits) ++most;
  }
  return most;
}

// What refuses a call tells how much is free. With what is known to be used
// that is the same whenever there are no keys.
void WorldState::CheckHeadroom(MemoryTensorStore& store,
                               std::vector<uint64_t>& rooms) {
  std::vector<uint64_t> found;
  for (const SpacePlan& each : plan_.spaces) {
    const uint64_t limit = each.config.budget_bytes;
    const absl::StatusOr<DescribeNamespaceReply> reply =
        store.DescribeNamespace(testing::DescribeOf(each.name), {});
    if (limit == 0 || !reply.ok()) return;
    const auto large = Tensor::Allocate(
        DType::kF32, Shape({static_cast<int64_t>(limit / sizeof(float))}));
    if (!large.ok()) return;
    absl::Status refusal;
    store.Init({.name_space = each.name, .entries = {{"large", *large}}}, {},
               [&refusal](const absl::StatusOr<InitReply>& reply) {
                 refusal = reply.status();
               });
    const auto info = ErrorInfoOf(refusal);
    uint64_t free = 0;
    uint64_t needed = 0;
    MutexLock lock(&mutex_);
    if (ReasonOf(refusal) != Reason::kOverBudget || !info ||
        !absl::SimpleAtoi(info->metadata.at("available"), &free) ||
        !absl::SimpleAtoi(info->metadata.at("needed"), &needed)) {
      return Find(absl::StrCat("more than all is not refused: ", each.name,
                               ": ", refusal.ToString()));
    }
    // Not even its name has room, beside what is remembered of others.
    if (needed < limit) return;
    const v1::MemoryUse& memory = reply->status().memory();
    found.push_back(free + memory.values() + memory.state() +
                    memory.contributions() + memory.metadata());
    const size_t at = found.size() - 1;
    if (at < rooms.size() && rooms[at] != found[at]) {
      Find(absl::StrCat("a budget loses bytes: ", each.name, ": ", found[at],
                        " bytes are free or used, expected ", rooms[at], ": ",
                        refusal.message()));
    }
  }
  rooms = found;
}

void WorldState::BeginRuling(Space& space) {
  ++space.num_rulings;
  if (space.num_ruling++ > 0 || num_moving_ > 0) space.rules.reset();
}

bool WorldState::EndRuling(Space& space) {
  ++space.num_rulings;
  return --space.num_ruling == 0;
}

// The rule that governs the key, by what was bound to patterns.
void WorldState::CheckRule(const Call& call, const Space& space,
                           const KeyStatus& listed) {
  if (!space.rules) return;
  uint32_t expected = 0;
  for (const auto& [pattern, variant] : *space.rules) {
    if (Matches(pattern, listed.key())) expected = variant;
  }
  const auto& has = listed.rule().hyperparameters();
  const auto limit = has.find("clip_gradient");
  const double is = limit == has.end() ? -1 : limit->second;
  const auto& wanted = VariantOf(space.plan.rule, expected).hyperparameters;
  const auto want = wanted.find("clip_gradient");
  const double should = want == wanted.end() ? -1 : want->second;
  if (is == should) return;
  Find(absl::StrCat("another rule governs: ", call.what, ": ", listed.key(),
                    " has ", FromProto(listed.rule()).ToString(), ", expected ",
                    VariantOf(space.plan.rule, expected).ToString()));
}

}  // namespace tensorkv::swarm
