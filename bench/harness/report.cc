#include "bench/harness/report.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/harness/goals.h"
#include "bench/harness/machine.h"
#include "bench/harness/records_json.h"
#include "bench/harness/section_text.h"

namespace tensorkv::bench {
namespace {

absl::Status Write(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace

void Report::Print(const std::string& text) {
  std::cout << text << std::endl;
  absl::StrAppend(&text_, text, "\n");
}

void Report::PrintMachine() {
  std::string text;
  for (const auto& [name, value] : DescribeMachine()) {
    absl::StrAppend(&text, "- ", name, ": ", value, "\n");
  }
  Print(text);
}

void Report::Add(Section section) {
  if (section.empty()) return;
  Print(SectionText(section));
  sections_.push_back(std::move(section));
}

void Report::PrintGoals(bool measured_only) {
  std::vector<GoalResult> goals = CheckGoals(sections_);
  const auto end =
      std::remove_if(goals.begin(), goals.end(), [&](const GoalResult& result) {
        return measured_only && !result.value.has_value();
      });
  goals.erase(end, goals.end());
  if (!goals.empty()) Print(GoalsText(goals));
}

absl::Status Report::WriteText(const std::string& file) const {
  return Write(file, text_);
}

absl::Status Report::WriteRecords(const std::string& file) const {
  if (file.empty()) return absl::OkStatus();
  return Write(file, RecordsJson(sections_));
}

}  // namespace tensorkv::bench
