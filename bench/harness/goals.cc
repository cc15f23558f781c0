#include "bench/harness/goals.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/harness/text_table.h"

namespace tensorkv::bench {
namespace {

// Finds figures by the names of rows. Rows count with one call in flight.
class Figures {
 public:
  explicit Figures(const std::vector<Section>& sections)
      : sections_(sections) {}

  const Row* FindRow(absl::string_view name) const {
    for (const Section& section : sections_) {
      for (const Row& row : section.rows) {
        if (row.name == name && row.in_flight == 1) return &row;
      }
    }
    return nullptr;
  }

  // How many times as fast as the reference ours is.
  std::optional<double> Speed(absl::string_view name,
                              absl::string_view reference) const {
    const Row* row = FindRow(name);
    const Measurement* other = row == nullptr ? nullptr : row->Find(reference);
    if (other == nullptr) return std::nullopt;
    return SpeedRatio(row->ours, *other);
  }

  // How many times as long as the reference's our median call takes.
  std::optional<double> MedianTime(absl::string_view name,
                                   absl::string_view reference) const {
    const Row* row = FindRow(name);
    const Measurement* other = row == nullptr ? nullptr : row->Find(reference);
    if (other == nullptr || other->p50_microseconds <= 0) return std::nullopt;
    return row->ours.p50_microseconds / other->p50_microseconds;
  }

  std::optional<double> MillionKeysPerSecond(absl::string_view name) const {
    const Row* row = FindRow(name);
    if (row == nullptr) return std::nullopt;
    return row->ours.keys_per_second / 1e6;
  }

  std::optional<double> Value(absl::string_view name) const {
    for (const Section& section : sections_) {
      for (const Figure& figure : section.figures) {
        if (figure.name == name) return figure.value;
      }
    }
    return std::nullopt;
  }

 private:
  const std::vector<Section>& sections_;
};

constexpr absl::string_view kDirections[] = {"push", "pull"};

void AddSizeGoals(const Figures& figures, std::vector<GoalResult>* results) {
  const auto add = [&](const std::string& row, absl::string_view reference,
                       double bound) {
    results->push_back({.goal = absl::StrCat(row, ", speed by ", reference),
                        .bound = bound,
                        .value = figures.Speed(row, reference)});
  };
  for (const absl::string_view size : {"1MiB", "16MiB", "64MiB", "1GiB"}) {
    for (const absl::string_view verb : kDirections) {
      const std::string row = absl::StrCat("tcp/", verb, "/", size);
      add(row, "raw", 0.65);
      add(row, "naive", 3);
      if (size == "1MiB") continue;
      // Neither takes a value of 1 GiB.
      if (size == "1GiB") continue;
      add(row, "redis", 1);
      add(row, "memcached", 1);
    }
  }
  for (const absl::string_view verb : kDirections) {
    add(absl::StrCat("size/", verb, "/64MiB"), "1MiB", 0.9);
  }
}

void AddBatchGoals(const Figures& figures, std::vector<GoalResult>* results) {
  for (const absl::string_view verb : kDirections) {
    const std::string row = absl::StrCat("batch/", verb, "/1000x4KiB");
    results->push_back({.goal = absl::StrCat(row, ", speed by one 4MiB"),
                        .bound = 0.8,
                        .value = figures.Speed(row, "4MiB")});
  }
  const std::string many = "tcp/pushpull/10000x256B";
  results->push_back({.goal = absl::StrCat(many, ", M keys/s"),
                      .bound = 1,
                      .value = figures.MillionKeysPerSecond(many)});
}

void AddLatencyGoals(const Figures& figures, std::vector<GoalResult>* results) {
  for (const absl::string_view verb : {"push", "pull", "pushpull"}) {
    const std::string row = absl::StrCat("tcp/", verb, "/4KiB");
    results->push_back({.goal = absl::StrCat(row, ", p50 by echo"),
                        .bound = 1.3,
                        .is_upper = true,
                        .value = figures.MedianTime(row, "echo")});
  }
}

void AddRoundGoals(const Figures& figures, std::vector<GoalResult>* results) {
  results->push_back({.goal = "round/4x64MiB, speed by unrelated pushes",
                      .bound = 0.5,
                      .value = figures.Speed("round/4x64MiB", "unrelated")});
  results->push_back({.goal = "sum/4x64MiB, speed by memcpy",
                      .bound = 0.7,
                      .value = figures.Speed("sum/4x64MiB", "memcpy")});
}

void AddKeyGoals(const Figures& figures, std::vector<GoalResult>* results) {
  for (const absl::string_view moment : {"init", "push"}) {
    const std::string name =
        absl::StrCat("memory per key beyond its value, after ", moment);
    results->push_back({.goal = absl::StrCat(name, ", bytes"),
                        .bound = 300,
                        .is_upper = true,
                        .value = figures.Value(name)});
  }
  for (const absl::string_view verb : {"list", "stat", "push"}) {
    const std::string row = absl::StrCat("keys/", verb, "/1000000");
    // "Flat": the caches hold fewer of so many keys, and no more than that.
    results->push_back({.goal = absl::StrCat(row, ", speed by 100 keys"),
                        .bound = 0.5,
                        .value = figures.Speed(row, "100 keys")});
  }
}

}  // namespace

std::vector<GoalResult> CheckGoals(const std::vector<Section>& sections) {
  const Figures figures(sections);
  std::vector<GoalResult> results;
  AddSizeGoals(figures, &results);
  AddBatchGoals(figures, &results);
  AddLatencyGoals(figures, &results);
  AddRoundGoals(figures, &results);
  AddKeyGoals(figures, &results);
  return results;
}

std::string GoalsText(const std::vector<GoalResult>& results) {
  TextTable table({"goal", "bound", "measured", "met"});
  for (const GoalResult& result : results) {
    const bool is_known = result.value.has_value();
    table.AddRow(
        {result.goal,
         absl::StrFormat("%s %g", result.is_upper ? "<=" : ">=", result.bound),
         is_known ? absl::StrFormat("%.2f", *result.value) : "-",
         !is_known         ? "not measured"
         : result.is_met() ? "yes"
                           : "NO"});
  }
  return absl::StrCat("### Goals\n\n", table.ToString());
}

}  // namespace tensorkv::bench
