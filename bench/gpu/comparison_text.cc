#include "bench/gpu/comparison_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/harness/text_table.h"
#include "nlohmann/json.hpp"

namespace tensorkv::bench::gpu {
namespace {

using Json = nlohmann::ordered_json;

// Three digits that count, and no exponent.
std::string Number(double value) {
  if (value >= 99.95) return absl::StrFormat("%.0f", value);
  if (value >= 9.995) return absl::StrFormat("%.1f", value);
  if (value >= 0.01) return absl::StrFormat("%.2f", value);
  return absl::StrFormat("%.4f", value);
}

// One digit more: a goal may be missed by little.
std::string RatioText(double ratio) {
  return ratio < 9.995 ? absl::StrFormat("%.3f", ratio) : Number(ratio);
}

std::string WithUnit(double value, const std::string& unit) {
  return absl::StrCat(Number(value), " ", unit);
}

std::vector<std::string> Cells(const Comparison& comparison) {
  std::vector<std::string> cells = {comparison.name,
                                    WithUnit(comparison.ours, comparison.unit)};
  if (!comparison.limit) {
    cells.insert(cells.end(), {"-", "-", "-", "-", "-"});
    return cells;
  }
  const Limit& limit = *comparison.limit;
  cells.insert(cells.end(), {limit.name, WithUnit(limit.value, comparison.unit),
                             RatioText(limit.ratio)});
  if (!limit.goal) {
    cells.insert(cells.end(), {"-", "-"});
  } else {
    cells.insert(cells.end(), {absl::StrFormat(">= %g", *limit.goal),
                               limit.is_met() ? "yes" : "NO"});
  }
  return cells;
}

Json RecordOf(const Comparison& comparison) {
  Json record = {{"name", comparison.name},   {"bytes", comparison.bytes},
                 {"ours", comparison.ours},   {"unit", comparison.unit},
                 {"reference_name", nullptr}, {"reference", nullptr},
                 {"ratio", nullptr},          {"goal", nullptr}};
  if (!comparison.limit) return record;
  record["reference_name"] = comparison.limit->name;
  record["reference"] = comparison.limit->value;
  record["ratio"] = comparison.limit->ratio;
  if (comparison.limit->goal) record["goal"] = *comparison.limit->goal;
  return record;
}

}  // namespace

std::string ComparisonText(const ComparisonTable& table) {
  std::string text = absl::StrCat("### ", table.title, "\n\n");
  TextTable rows(
      {"figure", "ours", "beside", "which has", "ratio", "goal", "met"});
  for (const Comparison& comparison : table.comparisons) {
    rows.AddRow(Cells(comparison));
  }
  if (!rows.empty()) absl::StrAppend(&text, rows.ToString(), "\n");
  for (const std::string& reason : table.left_out) {
    absl::StrAppend(&text, "- left out: ", reason, "\n");
  }
  return text;
}

std::string ComparisonsJson(const std::vector<ComparisonTable>& tables) {
  Json records = Json::array();
  for (const ComparisonTable& table : tables) {
    for (const Comparison& comparison : table.comparisons) {
      records.push_back(RecordOf(comparison));
    }
  }
  return records.dump(2) + "\n";
}

}  // namespace tensorkv::bench::gpu
