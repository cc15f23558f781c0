#include "bench/gpu/comparer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tensorkv::bench::gpu {

void Comparer::AddSpeeds(const std::string& name, int64_t bytes, Entrant ours,
                         std::vector<Rival> rivals) {
  std::vector<Entrant> references;
  std::vector<std::optional<double>> goals;
  for (Rival& rival : rivals) {
    references.push_back(std::move(rival.entrant));
    goals.push_back(rival.goal);
  }
  std::vector<std::string> names;
  for (const Entrant& reference : references) names.push_back(reference.name);
  const std::optional<Row> row =
      Measure(name, bytes, std::move(ours), std::move(references));
  if (!row) return;
  Comparison comparison = {.name = name,
                           .bytes = bytes,
                           .ours = row->ours.gigabytes_per_second,
                           .unit = "GB/s"};
  for (size_t i = 0; i < names.size(); ++i) {
    const Measurement* const measured = row->Find(names[i]);
    if (measured == nullptr) continue;
    comparison.limit = {.name = names[i],
                        .value = measured->gigabytes_per_second,
                        .ratio = SpeedRatio(row->ours, *measured),
                        .goal = goals[i]};
    table_.comparisons.push_back(comparison);
  }
  // Without anything to be compared with, it still is a figure.
  if (!comparison.limit) table_.comparisons.push_back(comparison);
}

void Comparer::AddTimes(const std::string& name, int64_t bytes, Entrant ours,
                        const std::optional<PublishedTime>& published) {
  const std::optional<Row> row = Measure(name, bytes, std::move(ours), {});
  if (!row) return;
  Comparison median = {.name = name,
                       .bytes = bytes,
                       .ours = row->ours.p50_microseconds,
                       .unit = "us"};
  if (published && median.ours > 0) {
    median.limit = {.name = published->name,
                    .value = published->microseconds,
                    .ratio = published->microseconds / median.ours,
                    .goal = published->goal};
  }
  table_.comparisons.push_back(median);
  table_.comparisons.push_back({.name = absl::StrCat(name, "/p99"),
                                .bytes = bytes,
                                .ours = row->ours.p99_microseconds,
                                .unit = "us"});
}

void Comparer::LeaveOut(const std::string& name, const absl::Status& reason) {
  table_.left_out.push_back(absl::StrCat(name, ": ", reason.message()));
}

std::optional<Row> Comparer::Measure(const std::string& name, int64_t bytes,
                                     Entrant ours,
                                     std::vector<Entrant> references) {
  Section section;
  Row row = {.name = name, .bytes = bytes};
  if (ours.load.ok()) row.in_flight = (*ours.load)->shape().in_flight;
  runner_.Measure(std::move(row), std::move(ours), std::move(references),
                  &section);
  for (std::string& reason : section.left_out) {
    table_.left_out.push_back(std::move(reason));
  }
  if (section.rows.empty()) return std::nullopt;
  return std::move(section.rows.front());
}

}  // namespace tensorkv::bench::gpu
