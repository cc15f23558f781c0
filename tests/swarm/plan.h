// What one seed of the swarm does: the namespaces that it has, and its steps.

#ifndef TENSORKV_TESTS_SWARM_PLAN_H_
#define TENSORKV_TESTS_SWARM_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/requests.h"

namespace tensorkv::swarm {

// Of every namespace. The last is of integers where the rule takes them.
inline constexpr uint32_t kNumKeys = 4;
inline constexpr uint32_t kNumActors = 5;
// The series of snapshots that are made of parts.
inline constexpr char kPartsSeries[] = "parts";
// Every key has this shape.
inline constexpr int kNumRows = 3;
inline constexpr int kRowSize = 2;
inline constexpr int kNumElements = kNumRows * kRowSize;

// What a step does. The name is what a finding prints.
#define TENSORKV_SWARM_VERBS(V)                                            \
  /* A good worker's next call: Join, KeepAlive, or a push of its step. */ \
  V(Work)                                                                  \
  V(Init)                                                                  \
  V(Push)                                                                  \
  V(PushPull)                                                              \
  V(PushRows)                                                              \
  V(Pull)                                                                  \
  V(WorkerPull)                                                            \
  V(WaitingPull)                                                           \
  V(PullRows)                                                              \
  V(SetState)                                                              \
  V(GetState)                                                              \
  V(Delete)                                                                \
  V(List)                                                                  \
  V(Stat)                                                                  \
  V(SetRule)                                                               \
  V(UnsetRule)                                                             \
  V(SetHyperparameters)                                                    \
  V(SetMultipliers)                                                        \
  V(UnsetMultipliers)                                                      \
  V(UpdateNamespace)                                                       \
  V(KeepAlive)                                                             \
  V(Rejoin)                                                                \
  V(Leave)                                                                 \
  V(Die)                                                                   \
  V(Barrier)                                                               \
  V(DeleteNamespace)                                                       \
  V(CreateNamespace)                                                       \
  V(Repeat)                                                                \
  V(LateRepeat)                                                            \
  V(Cancel)                                                                \
  V(Resume)                                                                \
  V(Settle)                                                                \
  V(Advance)                                                               \
  V(SlowDevice)                                                            \
  V(FailDevice)                                                            \
  V(Snapshot)                                                              \
  V(NamedSnapshot)                                                         \
  V(Watch)                                                                 \
  V(ResumeReader)                                                          \
  V(Restore)                                                               \
  V(Move)                                                                  \
  /* Those that follow are for clusters alone. */                          \
  V(Learn)                                                                 \
  V(Network)                                                               \
  V(LateMessage)                                                           \
  V(Lose)

enum class Verb : uint8_t {
#define TENSORKV_SWARM_ENUMERATOR(name) k##name,
  TENSORKV_SWARM_VERBS(TENSORKV_SWARM_ENUMERATOR)
#undef TENSORKV_SWARM_ENUMERATOR
      kCount,
};

// Means something whatever came before, so that any step may be left out: who
// pushes which step of which epoch is decided when it is run.
struct Action {
  Verb verb = Verb::kSettle;
  uint8_t actor = 0;
  uint8_t space = 0;
  // A bit for each key; not 0.
  uint8_t keys = 1;
  // A choice among variants of the verb.
  uint8_t how = 0;
  // The seed of what else it takes, such as elements.
  uint32_t number = 0;
  // The server that it goes to: decided when it is run, as the keys may have
  // several owners.
  uint8_t server = 0;
};

// A power of two: what is multiplied by it is not rounded.
inline constexpr double kMomentum = 0.5;

enum class Rule : uint8_t { kAssign, kAccumulate, kSgd, kMomentum };

// A namespace that the seed uses.
struct SpacePlan {
  std::string name;
  NamespaceConfig config;
  Rule rule = Rule::kAccumulate;
  // Workers join; else they have epoch 0.
  bool joins = false;
  // Workers push all keys in every step, one step after another, and nobody
  // else changes keys: then no step that was told may be refused.
  bool is_orderly = false;
  // The ledger knows what values follow from contributions.
  bool is_exact = true;
  // Steps change its quorum, what losses mean, and whether sums are rescaled.
  bool is_updated = false;

  bool is_group() const { return config.mode != Mode::kAsync; }
  uint32_t num_ranks() const {
    if (!is_group()) return kNumActors;
    return std::max(config.num_workers, config.max_workers);
  }
  bool has_means() const { return config.aggregation == Aggregation::kMean; }
  bool has_infinities() const {
    return config.gradient_guard.on_non_finite != OnNonFinite::kApply;
  }
  // Every round has a contribution of every rank.
  bool is_whole() const {
    return config.mode == Mode::kSync && config.quorum == 0 &&
           config.max_workers == 0 && !may_continue();
  }
  // Rounds may close without those who are lost.
  bool may_continue() const {
    return config.on_worker_loss == OnWorkerLoss::kContinue || is_updated;
  }
  // Rounds may take what came late for earlier ones.
  bool carries() const { return config.late == Late::kCarry; }
  // Sums that lack workers may be rescaled.
  bool may_rescale() const {
    return config.rescale_partial_rounds ||
           (is_updated && !has_means() && !carries());
  }
};

struct Plan {
  uint64_t seed = 0;
  std::vector<SpacePlan> spaces;
  // More than 1: a cluster.
  uint32_t num_servers = 1;
  uint32_t num_partitions = 0;
  // Every server of the cluster has all keys.
  bool is_mirrored = false;
  // Messages between servers take their time from the start.
  bool has_delays = false;
  // Whether calls have deadlines of seconds, rather than the store's bound.
  bool has_deadlines = false;
  // Whether some pushes have hundreds of entries.
  bool has_long_calls = false;
  bool has_rows = false;
  bool has_encodings = false;
  bool has_skips = false;
  bool has_cancelling_entries = false;
  uint64_t budget_bytes = 0;
  std::vector<Action> actions;
};

// What that seed does. Most seeds leave most verbs out. A seed without
// `may_be_cluster` has one server.
Plan MakePlan(uint64_t seed, bool may_be_cluster = true);

// Whether nothing in it runs out of memory.
bool HasHeadroom(const Plan& plan);
std::string KeyName(uint32_t key);
// REQUIRES: the name is one of KeyName.
uint32_t KeyOf(absl::string_view name);
DType KeyDType(const SpacePlan& space, uint32_t key);
RuleSpec SpecOf(Rule rule);
// A rule that makes the same values, and can be told apart where it has
// hyperparameters; 0 is SpecOf itself.
RuleSpec VariantOf(Rule rule, uint32_t variant);
// Whether the pattern, of those that steps set, governs the key.
bool Matches(absl::string_view pattern, absl::string_view key);

absl::string_view NameOf(Verb verb);
// Whether its calls go to the servers that have the keys.
bool IsOfKeys(Verb verb);
// One line each.
std::string ToString(const SpacePlan& space);
std::string ToString(const Action& action);

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_PLAN_H_
