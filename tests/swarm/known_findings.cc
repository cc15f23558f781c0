// What the swarm finds and is not mended yet. A row goes with its mend.

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
};

constexpr KnownFinding kKnown[] = {
    {"nothing", "nothing", "a row to begin with"},
};

}  // namespace

absl::string_view KnownReason(const Plan&, absl::string_view finding) {
  for (const KnownFinding& known : kKnown) {
    if (absl::StartsWith(finding, known.begins) &&
        absl::StrContains(finding, known.has)) {
      return known.reason;
    }
  }
  return "";
}

}  // namespace tensorkv::swarm
