// What the figures must be.

#ifndef TENSORKV_BENCH_HARNESS_GOALS_H_
#define TENSORKV_BENCH_HARNESS_GOALS_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/harness/section.h"

namespace tensorkv::bench {

struct GoalResult {
  Goal goal;
  // What was measured; nothing if the row was left out.
  std::optional<double> value;

  bool is_met() const;
};

// The goals of all sections, in their order. Rows count with the fewest calls
// in flight that they were measured with.
std::vector<GoalResult> CheckGoals(const std::vector<Section>& sections);

// A Markdown section with a table of them.
std::string GoalsText(const std::vector<GoalResult>& results);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_GOALS_H_
