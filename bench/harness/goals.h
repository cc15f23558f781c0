// What the figures must be.

#ifndef TENSORKV_BENCH_HARNESS_GOALS_H_
#define TENSORKV_BENCH_HARNESS_GOALS_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/harness/section.h"

namespace tensorkv::bench {

struct GoalResult {
  std::string goal;  // "tcp/push/1MiB x raw"
  double bound = 0;
  bool is_upper = false;  // whether `bound` is the most, else the least
  // What was measured; nothing if the row was left out.
  std::optional<double> value;

  bool is_met() const {
    return value.has_value() && (is_upper ? *value <= bound : *value >= bound);
  }
};

// Every goal of the data path, in a fixed order.
std::vector<GoalResult> CheckGoals(const std::vector<Section>& sections);

// A Markdown section with a table of them.
std::string GoalsText(const std::vector<GoalResult>& results);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_GOALS_H_
