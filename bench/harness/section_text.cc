#include "bench/harness/section_text.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tensorkv::bench {
namespace {

// Three digits that count, and no exponent.
std::string Number(double value) {
  if (value <= 0) return "-";
  if (value >= 99.95) return absl::StrFormat("%.0f", value);
  if (value >= 9.995) return absl::StrFormat("%.1f", value);
  if (value >= 0.01) return absl::StrFormat("%.2f", value);
  return absl::StrFormat("%.4f", value);
}

std::string NameOf(Unit unit) {
  switch (unit) {
    case Unit::kGigabytesPerSecond:
      return "GB/s";
    case Unit::kMillionKeysPerSecond:
      return "M keys/s";
    case Unit::kNanosecondsPerKey:
      return "ns/key";
    case Unit::kMicroseconds:
      return "µs";
  }
  return "";
}

double ValueIn(Unit unit, const Measurement& measurement) {
  switch (unit) {
    case Unit::kGigabytesPerSecond:
      return measurement.gigabytes_per_second;
    case Unit::kMillionKeysPerSecond:
      return measurement.keys_per_second / 1e6;
    case Unit::kNanosecondsPerKey:
      if (measurement.keys_per_second <= 0) return 0;
      return 1e9 / measurement.keys_per_second;
    case Unit::kMicroseconds:
      return measurement.p50_microseconds;
  }
  return 0;
}

// Gathers those of all rows, in the order in which they come first.
std::vector<std::string> ReferenceNames(const Section& section) {
  std::vector<std::string> names;
  for (const Row& row : section.rows) {
    for (const Reference& reference : row.references) {
      if (std::find(names.begin(), names.end(), reference.name) ==
          names.end()) {
        names.push_back(reference.name);
      }
    }
  }
  return names;
}

std::vector<std::string> Header(const Section& section,
                                const std::vector<std::string>& references) {
  std::vector<std::string> header = {
      "call", "in flight", absl::StrCat("ours ", NameOf(section.unit))};
  for (const std::string& name : references) {
    header.push_back(absl::StrCat(name, " (ratio)"));
  }
  header.insert(header.end(), {"CPU s/GB", "p50 µs", "p99 µs"});
  return header;
}

std::string ReferenceCell(const Section& section, const Row& row,
                          const std::string& name) {
  const Measurement* other = row.Find(name);
  if (other == nullptr) return "-";
  const double value = ValueIn(section.unit, *other);
  const double ratio = section.unit == Unit::kMicroseconds
                           ? value / row.ours.p50_microseconds
                           : SpeedRatio(row.ours, *other);
  return absl::StrCat(Number(value), " (", Number(ratio), ")");
}

std::vector<std::string> Cells(const Section& section, const Row& row,
                               const std::vector<std::string>& references) {
  std::vector<std::string> cells = {row.name, absl::StrCat(row.in_flight),
                                    Number(ValueIn(section.unit, row.ours))};
  for (const std::string& name : references) {
    cells.push_back(ReferenceCell(section, row, name));
  }
  cells.push_back(Number(row.ours.cpu_seconds_per_gigabyte));
  cells.push_back(Number(row.ours.p50_microseconds));
  cells.push_back(Number(row.ours.p99_microseconds));
  return cells;
}

// Counts characters, not bytes: "µ" is one.
size_t WidthOf(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (c & 0xC0) != 0x80; });
}

std::string LineText(const std::vector<std::string>& cells,
                     const std::vector<size_t>& widths) {
  std::string line = "|";
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - WidthOf(cells[i]), ' ');
    absl::StrAppend(&line, " ", i == 0 ? "" : padding, cells[i],
                    i == 0 ? padding : "", " |");
  }
  return line + "\n";
}

}  // namespace

std::string SectionText(const Section& section) {
  std::string text = absl::StrCat("### ", section.title, "\n\n");
  const std::vector<std::string> references = ReferenceNames(section);
  std::vector<std::vector<std::string>> table = {Header(section, references)};
  for (const Row& row : section.rows) {
    table.push_back(Cells(section, row, references));
  }
  if (table.size() > 1) absl::StrAppend(&text, TableText(table), "\n");
  for (const Figure& figure : section.figures) {
    absl::StrAppend(&text, "- ", figure.name, ": ", Number(figure.value), " ",
                    figure.unit, "\n");
  }
  for (const std::string& reason : section.left_out) {
    absl::StrAppend(&text, "- left out: ", reason, "\n");
  }
  return text;
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], WidthOf(row[i]));
    }
  }
  std::string text = LineText(rows.front(), widths) + "|";
  for (size_t i = 0; i < widths.size(); ++i) {
    absl::StrAppend(&text, std::string(widths[i] + 1, '-'),
                    i == 0 ? "-|" : ":|");
  }
  text += "\n";
  for (size_t i = 1; i < rows.size(); ++i) text += LineText(rows[i], widths);
  return text;
}

}  // namespace tensorkv::bench
