#include "bench/harness/goals.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/harness/section_text.h"

namespace tensorkv::bench {
namespace {

bool IsUpperBound(Goal::Kind kind) {
  return kind == Goal::Kind::kMedianTime || kind == Goal::Kind::kFigure;
}

std::optional<double> ValueOf(const Goal& goal, const Row& row) {
  if (goal.kind == Goal::Kind::kMillionKeysPerSecond) {
    return row.ours.keys_per_second / 1e6;
  }
  const Measurement* const other = row.Find(goal.reference);
  if (other == nullptr) return std::nullopt;
  if (goal.kind == Goal::Kind::kSpeed) return SpeedRatio(row.ours, *other);
  if (other->p50_microseconds <= 0) return std::nullopt;
  return row.ours.p50_microseconds / other->p50_microseconds;
}

std::optional<double> ValueIn(const Section& section, const Goal& goal) {
  if (goal.kind == Goal::Kind::kFigure) {
    for (const Figure& figure : section.figures) {
      if (figure.name == goal.name) return figure.value;
    }
    return std::nullopt;
  }
  const Row* found = nullptr;
  for (const Row& row : section.rows) {
    const bool is_first = found == nullptr || row.in_flight < found->in_flight;
    if (row.name == goal.name && is_first) found = &row;
  }
  return found == nullptr ? std::nullopt : ValueOf(goal, *found);
}

std::string TextOf(const Goal& goal) {
  switch (goal.kind) {
    case Goal::Kind::kSpeed:
      return absl::StrCat(goal.name, ", speed by ", goal.reference);
    case Goal::Kind::kMedianTime:
      return absl::StrCat(goal.name, ", p50 by ", goal.reference);
    case Goal::Kind::kMillionKeysPerSecond:
      return absl::StrCat(goal.name, ", M keys/s");
    case Goal::Kind::kFigure:
      return goal.name;
  }
  return "";
}

}  // namespace

bool GoalResult::is_met() const {
  if (!value.has_value()) return false;
  return IsUpperBound(goal.kind) ? *value <= goal.bound : *value >= goal.bound;
}

std::vector<GoalResult> CheckGoals(const std::vector<Section>& sections) {
  std::vector<GoalResult> results;
  for (const Section& section : sections) {
    for (const Goal& goal : section.goals) {
      results.push_back({goal, ValueIn(section, goal)});
    }
  }
  return results;
}

std::string GoalsText(const std::vector<GoalResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"goal", "bound", "measured", "met"}};
  for (const GoalResult& result : results) {
    const bool is_known = result.value.has_value();
    const char* const comparison = IsUpperBound(result.goal.kind) ? "<=" : ">=";
    rows.push_back({TextOf(result.goal),
                    absl::StrFormat("%s %g", comparison, result.goal.bound),
                    is_known ? absl::StrFormat("%.2f", *result.value) : "-",
                    !is_known         ? "not measured"
                    : result.is_met() ? "yes"
                                      : "NO"});
  }
  return absl::StrCat("### Goals\n\n", TableText(rows));
}

}  // namespace tensorkv::bench
