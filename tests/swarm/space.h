// A namespace and its calls, as those who make them know them.

#ifndef TENSORKV_TESTS_SWARM_SPACE_H_
#define TENSORKV_TESTS_SWARM_SPACE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "contract/requests.h"
#include "service/store/cancellation.h"
#include "service/store/snapshot.h"
#include "tests/swarm/key_ledger.h"
#include "tests/swarm/plan.h"
#include "tests/swarm/watched.h"

namespace tensorkv::swarm {

// Bound of every store on a wait.
inline constexpr absl::Duration kMostWait = absl::Seconds(60);

using Keys = std::vector<uint32_t>;
// By key.
using Values = std::map<uint32_t, Elements>;
using Versions = std::array<Version, kNumKeys>;

// One mutating call, however often it is made, or one call that changes
// nothing.
struct Call {
  std::string what;
  Verb verb = Verb::kSettle;
  uint32_t actor = 0;
  uint32_t space = 0;
  // Where it is made, and the keys that it names, a bit for each.
  uint32_t server = 0;
  uint8_t keys = 0;
  // Of the namespace when the call was first made.
  uint64_t generation = 0;
  std::optional<CallId> id;
  // Makes it once more.
  std::function<void(const std::shared_ptr<Call>&)> make;
  // A read or a barrier: makes another call that waits for the same.
  std::function<void(const Call&, const CallContext&,
                     std::function<void(const absl::Status&)>)>
      ask_again;
  // What says everything of the first answer that is kept; empty before.
  std::string answer;
  bool is_compared = true;
  // A worker's push of a step that it is through with.
  bool is_again = false;
  // The number of the snapshot of which its push is a part, and which one; 0:
  // of none.
  uint64_t part_of = 0;
  uint32_t part_index = 0;
  // An attempt of it may have had an effect: it is not made elsewhere.
  bool is_bound = false;
  int num_under_way = 0;
  int num_attempts = 0;
  // A worker's push: what its attempts have come to, and whether the worker
  // has heard.
  int num_ended = 0;
  absl::Status work;
  bool has_ended_work = false;
  absl::Duration timeout;
  absl::Duration last_made;
  // What versions that it makes are above.
  Versions ceilings = {};
  // What it brings, by key.
  std::map<uint32_t, ContributionPtr> contributions;
};
using CallPtr = std::shared_ptr<Call>;

// Whether a key exists.
enum class Known : uint8_t { kNo, kYes, kUnknown };

// One making of a call.
struct Attempt {
  CallPtr call;
  // When it began, by the world's moments.
  uint64_t moment = 0;
  // When its wait must be over.
  absl::Duration deadline;
  // Blocks its thread, and has no deadline: it waits for nobody.
  bool blocks = false;
  bool has_ended = false;
  // Its server has died: `lose` has ended it, whatever that answers.
  bool is_lost = false;
  std::function<void()> lose;
  // How often the cluster had changed when it began, if its server owned its
  // keys then and could not but know.
  std::optional<uint64_t> owned_since;
  std::shared_ptr<Cancellation> cancellation;
  // What its answer may not fall below, by key.
  Versions floors = {};
  std::array<Known, kNumKeys> known_before = {};
  // Whether the call had been made before.
  bool is_repeat = false;
};
using AttemptPtr = std::shared_ptr<Attempt>;

// How a worker sees itself. Good workers do what they are told.
struct Member {
  Worker worker;
  bool has_joined = false;
  // Its call failed: it asks which step is next.
  bool must_ask = false;
  // Its calls under way: one for each server that has some of the keys.
  int num_pushes = 0;
  Step next = 1;
  // What it was told when it joined: it may hear so again, though the key that
  // lacked the step is there no more.
  Step told_at_join = 0;
  // The keys that it has pushed in this step.
  uint8_t pushed = 0;

  void GoTo(Step step) {
    next = step;
    pushed = 0;
  }
};

// The ranks whose contributions to one round were answered, and when the last
// was.
struct Arrivals {
  uint64_t ranks = 0;
  absl::Duration last;
};

// A contribution that an answer was about, and the moment of that answer.
struct Answered {
  uint32_t key = 0;
  Step step = 0;
  uint64_t moment = 0;
};

// The namespace of a cluster in which members join and leave, and no keys are.
inline constexpr absl::string_view kMembers = "members";

// One namespace as its callers know it.
struct Space {
  explicit Space(const SpacePlan& plan) : plan(plan) {
    for (uint32_t i = 0; i < kNumKeys; ++i) {
      ledgers.emplace_back(plan, KeyDType(plan, i));
    }
  }

  const SpacePlan& plan;
  // Rises when it is created, or restored.
  uint64_t generation = 1;
  uint64_t uid = 0;
  bool exists = false;
  std::array<Known, kNumKeys> keys = {};
  // Calls under way that create, replace or delete it.
  std::array<int, kNumKeys> num_changing = {};
  std::array<bool, kNumKeys> is_contended = {};
  // The highest versions that were told, of what is there and, in ceilings, of
  // all that ever was.
  Versions floors = {};
  Versions ceilings = {};
  // Mirrored: the same of each server, and which have the keys that this action
  // was the first to create.
  std::map<uint32_t, Versions> floors_at;
  std::array<bool, kNumActors> has_init = {};
  Action first_init = {.keys = 0};
  std::vector<KeyLedger> ledgers;
  std::array<Member, kNumActors> members = {};
  // By rank, in an async namespace by the worker's name: the highest step that
  // was acknowledged, and that may have come.
  std::array<Step, kNumActors> reached = {};
  std::array<Step, kNumActors> most_reached = {};
  // By rank: its worker has left, and nobody has taken it since.
  std::array<bool, kNumActors> has_left = {};

  // By key and step: what has been pushed.
  std::map<std::pair<uint32_t, Step>, Arrivals> arrivals;
  // By rank, key and step: contributions that were taken.
  std::map<std::tuple<uint32_t, uint32_t, Step>, uint64_t> taken;
  // By rank: the contribution that it was told to push again, and has not.
  std::map<uint32_t, Answered> told_again;
  // By rank, key and step: when it was last brought, or answered.
  std::map<std::tuple<uint32_t, uint32_t, Step>, uint64_t> brought;
  // When what has last deleted or replaced the key began, and when it ended.
  std::array<uint64_t, kNumKeys> gone = {};
  std::array<uint64_t, kNumKeys> gone_by = {};
  bool is_restored = false;
  // Rounds may fail for want of contributions: what was taken is asked for
  // again, or a quorum closes without it.
  bool may_time_out = plan.config.round_timeout > absl::ZeroDuration();
  // Patterns as they were added, each with the variant of the plan's rule that
  // is bound to it; nothing if nobody knows.
  std::optional<std::vector<std::pair<std::string, uint32_t>>> rules;
  // Calls under way that change rules, and how many have begun or ended.
  int num_ruling = 0;
  uint64_t num_rulings = 0;

  Watched watched;

  // By rank: who had it last; kNumActors: nobody.
  std::array<uint32_t, kNumActors> last_actor = {};

  Versions& FloorsOf(uint32_t server) {
    return plan.config.mirrored ? floors_at[server] : floors;
  }
  uint32_t PlaceOf(uint32_t actor, uint32_t rank) const {
    return plan.is_group() ? rank : actor;
  }
};

// A push of several keys that was acknowledged, and the versions that it made.
struct WholeCall {
  uint32_t space = 0;
  uint64_t generation = 0;
  std::string what;
  std::map<uint32_t, Version> versions;
};

// What a namespace has told last of its changes.
struct ToldRevision {
  uint64_t revision = 0;
  uint64_t updates_applied = 0;
};

struct SavedSpace {
  NamespaceSnapshot name_space;
  std::vector<KeySnapshot> keys;
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_SPACE_H_
