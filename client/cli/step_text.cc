#include "client/cli/step_text.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv {
namespace {

// Returns how the rank contributed, if there is something to say of it.
std::string MannerOf(const v1::StepContribution& contribution) {
  std::string manner;
  if (contribution.skipped()) manner = " skipped";
  if (contribution.has_weight() && contribution.weight() != 1) {
    manner = absl::StrCat(" weighs ", contribution.weight());
  }
  if (contribution.carried_from() != 0) {
    absl::StrAppend(&manner, " of step ", contribution.carried_from());
  }
  return manner;
}

std::string RangeText(uint32_t first, uint32_t last) {
  return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last);
}

std::string Counted(uint64_t number, const char* thing) {
  return absl::StrCat(number, " ", thing, number == 1 ? "" : "s");
}

}  // namespace

std::string TextOf(const v1::StepContributors& list) {
  std::string text = absl::StrCat(Counted(list.num_keys(), "key"), ":");
  for (int first = 0; first < list.contributions_size();) {
    const v1::StepContribution& begin = list.contributions(first);
    const std::string manner = MannerOf(begin);
    int end = first + 1;
    while (end < list.contributions_size() &&
           list.contributions(end).rank() == begin.rank() + (end - first) &&
           MannerOf(list.contributions(end)) == manner) {
      ++end;
    }
    absl::StrAppend(&text, " ",
                    RangeText(begin.rank(), list.contributions(end - 1).rank()),
                    manner);
    first = end;
  }
  if (list.contributions().empty()) absl::StrAppend(&text, " nobody");
  if (!list.missing().empty()) {
    absl::StrAppend(&text, " without ", absl::StrJoin(list.missing(), " "));
  }
  if (!list.keys().empty()) {
    absl::StrAppend(&text, " (", absl::StrJoin(list.keys(), " "), ")");
  }
  return text;
}

std::string TextOf(const v1::StepFailure& failure) {
  std::string text = Counted(failure.num_rounds(), "round");
  if (!failure.keys().empty()) {
    absl::StrAppend(&text, " of ", absl::StrJoin(failure.keys(), " "));
  }
  return absl::StrCat(text, ": ", failure.reason());
}

std::string TextOf(const v1::StepWorker& worker) {
  std::string text = absl::StrCat(worker.rank());
  if (!worker.name().empty()) absl::StrAppend(&text, " (", worker.name(), ")");
  const auto add = [&text](const char* name, auto count) {
    if (count != 0) absl::StrAppend(&text, " ", name, "=", count);
  };
  add("late_refused", worker.late_refused());
  add("late_carried", worker.late_carried());
  add("late_taken", worker.late_taken());
  add("late_dropped", worker.late_dropped());
  add("duplicates_refused", worker.duplicates_refused());
  add("guard_clipped", worker.guard_clipped());
  add("guard_skipped", worker.guard_skipped());
  add("guard_refused", worker.guard_refused());
  add("greatest_norm", worker.greatest_norm());
  return text;
}

}  // namespace tensorkv
