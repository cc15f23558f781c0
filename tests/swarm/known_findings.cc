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
    {"a worker that does as it is told is refused", "",
     "a group that grows and shrinks was restored: some repeat a step that "
     "others are told to pass over",
     Verb::kRestore},
    {"more rounds are open than may be", "",
     "a group that grows and shrinks was restored: what is to be pushed again "
     "opens rounds beyond the bound",
     Verb::kRestore},
};

}  // namespace

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
