#include "bench/harness/row_runner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/harness/interleaved.h"

namespace tensorkv::bench {
namespace {

// `entrant`'s load, or null.
Load* LoadOf(const Entrant& entrant) {
  return entrant.load.ok() ? entrant.load->get() : nullptr;
}

// Why the entrant has no measurement.
const absl::Status& ReasonOf(const Entrant& entrant,
                             const absl::StatusOr<Measurement>& result) {
  return entrant.load.ok() ? result.status() : entrant.load.status();
}

std::string Note(const Row& row, const std::string& who,
                 const absl::Status& reason) {
  return absl::StrCat(row.name, ", ", row.in_flight, " in flight, ", who, ": ",
                      reason.message());
}

}  // namespace

bool RowRunner::HasTimeFor(const std::string& what, Section* section) const {
  if (clocks_.steady_time() - start_ <= plan_.time_limit) return true;
  section->left_out.push_back(absl::StrCat(
      what, ": it would begin after ", absl::FormatDuration(plan_.time_limit)));
  return false;
}

void RowRunner::LeaveOut(const std::string& name, const absl::Status& reason,
                         Section* section) {
  section->left_out.push_back(absl::StrCat(name, ": ", reason.message()));
}

void RowRunner::Measure(Row row, Entrant ours, std::vector<Entrant> references,
                        Section* section) {
  progress_ << row.name << ", " << row.in_flight << " in flight" << std::endl;
  if (!ours.load.ok()) {
    section->left_out.push_back(Note(row, ours.name, ours.load.status()));
    return;
  }
  std::vector<Load*> loads = {LoadOf(ours)};
  for (const Entrant& reference : references) {
    loads.push_back(LoadOf(reference));
  }
  const std::vector<absl::StatusOr<Measurement>> results =
      MeasureInterleaved(loads, plan_.measure, clocks_);
  if (!results.front().ok()) {
    section->left_out.push_back(Note(row, ours.name, results.front().status()));
    return;
  }
  row.ours = *results.front();
  for (size_t i = 0; i < references.size(); ++i) {
    const absl::StatusOr<Measurement>& result = results[i + 1];
    if (result.ok()) {
      row.references.push_back({references[i].name, *result});
    } else {
      section->left_out.push_back(
          Note(row, references[i].name, ReasonOf(references[i], result)));
    }
  }
  section->rows.push_back(std::move(row));
}

void RowRunner::MeasureBeside(const std::string& name, int64_t bytes,
                              const Contender& ours, const Contender& other,
                              Section* section) {
  if (!MayBegin(name, section)) return;
  std::vector<Entrant> references;
  references.push_back({other.name, other.make_load()});
  Measure({.name = name, .bytes = bytes}, {ours.name, ours.make_load()},
          std::move(references), section);
}

}  // namespace tensorkv::bench
