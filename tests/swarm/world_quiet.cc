// What must hold when nothing can go on: nobody waits for what is there.

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "tensor/tensor.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {

// A call that waits is right if the same call, made now, waits too.
// REQUIRES: the scheduler has settled.
void World::CheckAgain() {
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
    CallContext context;
    context.timeout = kMostWait;
    context.cancellation = std::make_shared<Cancellation>();
    const auto answer = std::make_shared<std::optional<absl::Status>>();
    Run([this, attempt, context, answer] {
      attempt->call->ask_again(
          *attempt->call, context,
          [this, attempt, answer](const absl::Status& status) {
            MutexLock lock(&mutex_);
            *answer = status;
            // Else it only comes to its end now.
            if (status.ok() && !attempt->has_ended) {
              Find(absl::StrCat("waits for what is there: ",
                                attempt->call->what));
            }
          });
    });
    scheduler_->Settle();
    Run([context] { context.cancellation->Cancel(); });
    scheduler_->Settle();
  }
}

void World::NoteArrival(const Call& call, Step step) {
  Space& space = spaces_[call.space];
  for (const auto& [key, contribution] : call.contributions) {
    Arrivals& arrivals = space.arrivals[{key, step}];
    arrivals.ranks |= uint64_t{1} << contribution->rank;
    arrivals.last = alarms_.Now();
  }
}

// How many rounds may be open, as those who push know it; nothing where rounds
// end in other ways too.
std::optional<uint64_t> World::MostOpenRounds(const Space& space) const {
  const NamespaceConfig& config = space.plan.config;
  if (!is_stepped() || scheduler_->num_ready() > 0 || is_cluster() ||
      !HasRoom(plan_) || config.mode != Mode::kSync || space.plan.joins ||
      !space.plan.is_orderly) {
    return std::nullopt;
  }
  for (const Action& each : plan_.actions) {
    if (each.verb == Verb::kMove || each.verb == Verb::kRestore ||
        each.verb == Verb::kFailDevice) {
      return std::nullopt;
    }
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
void World::CheckRoom(MemoryTensorStore& store, std::vector<uint64_t>& rooms) {
  std::vector<uint64_t> found;
  for (const SpacePlan& each : plan_.spaces) {
    const uint64_t limit = each.config.budget_bytes;
    const auto status = store.DescribeNamespace(each.name, {});
    if (limit == 0 || !status.ok()) return;
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
    const MemoryUse& memory = status->memory;
    found.push_back(free + memory.values + memory.state + memory.contributions +
                    memory.metadata);
    const size_t at = found.size() - 1;
    if (at < rooms.size() && rooms[at] != found[at]) {
      Find(absl::StrCat("a budget loses bytes: ", each.name, ": ", found[at],
                        " bytes are free or used, expected ", rooms[at], ": ",
                        refusal.message()));
    }
  }
  rooms = found;
}

void World::BeginRuling(Space& space) {
  ++space.num_rulings;
  if (space.num_ruling++ > 0 || num_moving_ > 0) space.rules.reset();
}

bool World::EndRuling(Space& space) {
  ++space.num_rulings;
  return --space.num_ruling == 0;
}

// The rule that governs the key, by what was bound to patterns.
void World::CheckRule(const Call& call, const Space& space,
                      const KeyStatus& listed) {
  if (!space.rules) return;
  uint32_t expected = 0;
  for (const auto& [pattern, variant] : *space.rules) {
    if (Matches(pattern, listed.key)) expected = variant;
  }
  const auto& has = listed.rule.hyperparameters;
  const auto limit = has.find("clip_gradient");
  const double is = limit == has.end() ? -1 : limit->second;
  const auto& wanted = VariantOf(space.plan.rule, expected).hyperparameters;
  const auto want = wanted.find("clip_gradient");
  const double should = want == wanted.end() ? -1 : want->second;
  if (is == should) return;
  Find(absl::StrCat("another rule governs: ", call.what, ": ", listed.key,
                    " has ", listed.rule.ToString(), ", expected ",
                    VariantOf(space.plan.rule, expected).ToString()));
}

}  // namespace tensorkv::swarm
