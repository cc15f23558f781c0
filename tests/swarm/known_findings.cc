// What the swarm finds and is not mended yet. A row goes with its mend.

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "tests/swarm/swarm.h"

namespace tensorkv::swarm {
namespace {

struct KnownFinding {
  // How the finding begins.
  absl::string_view begins;
  // What else it has in it.
  absl::string_view has;
  absl::string_view reason;
  // Only in plans with this verb, if it is one.
  Verb with = Verb::kCount;
};

constexpr KnownFinding kKnown[] = {
    {"a worker is told a wrong step: async", "",
     "Join forgets the step of a rank whose worker has left or was lost"},
    {"a worker is told a wrong step: bounded", "",
     "Join forgets the step of a rank whose worker has left or was lost"},
    {"a worker that does as it is told is refused", "which it has reached, or",
     "it was told a wrong step, as above"},
    {"a worker that does as it is told is refused", "to contribute to step",
     "a round that had closed without it fails, and is asked of it again"},
    {"more rounds are open than may be", "",
     "rounds that are owed open again beyond max_open_rounds"},
    {"a worker that does as it is told is refused", "other workers have passed",
     "after a restore, Join tells a rank of an elastic group a step that its "
     "rounds have gone past"},
};

// Plans go without these verbs in the namespaces for which that holds.
struct KnownVerb {
  Verb verb;
  bool (*is_wrong_in)(const SpacePlan& space);
  absl::string_view reason;
};

bool IsFixedGroup(const SpacePlan& space) {
  return space.is_group() && space.config.max_workers == 0;
}

constexpr KnownVerb kKnownVerbs[] = {
    {Verb::kLeave, IsFixedGroup,
     "rounds of a group of fixed size go on without who has left"},
};

}  // namespace

void LeaveOutKnown(Plan& plan) {
  // Entries of one call for one key are not summed before they count as one
  // contribution.
  plan.has_cancelling_entries = false;
  std::erase_if(plan.actions, [&](const Action& action) {
    return std::any_of(std::begin(kKnownVerbs), std::end(kKnownVerbs),
                       [&](const KnownVerb& known) {
                         return known.verb == action.verb &&
                                known.is_wrong_in(plan.spaces[action.space]);
                       });
  });
}

absl::string_view KnownReason(const Plan& plan, absl::string_view finding) {
  for (const KnownFinding& known : kKnown) {
    const bool is_with = known.with == Verb::kCount ||
                         std::any_of(plan.actions.begin(), plan.actions.end(),
                                     [&](const Action& each) {
                                       return each.verb == known.with;
                                     });
    if (is_with && absl::StartsWith(finding, known.begins) &&
        absl::StrContains(finding, known.has)) {
      return known.reason;
    }
  }
  return "";
}

}  // namespace tensorkv::swarm
