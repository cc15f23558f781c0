#include "bench/harness/text_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorkv::bench {
namespace {

// Characters, not bytes: "µ" is one.
size_t WidthOf(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (c & 0xC0) != 0x80; });
}

std::string Padded(absl::string_view text, size_t width, bool to_the_left) {
  const std::string padding(width - WidthOf(text), ' ');
  return to_the_left ? absl::StrCat(text, padding)
                     : absl::StrCat(padding, text);
}

std::string Line(const std::vector<std::string>& cells,
                 const std::vector<size_t>& widths) {
  std::string line = "|";
  for (size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(&line, " ", Padded(cells[i], widths[i], i == 0), " |");
  }
  return line + "\n";
}

// Under the header; says how the columns are aligned.
std::string Rule(const std::vector<size_t>& widths) {
  std::string line = "|";
  for (size_t i = 0; i < widths.size(); ++i) {
    absl::StrAppend(&line, std::string(widths[i] + 1, '-'),
                    i == 0 ? "-|" : ":|");
  }
  return line + "\n";
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], WidthOf(row[i]));
    }
  }
  std::string text = Line(rows_.front(), widths) + Rule(widths);
  for (size_t i = 1; i < rows_.size(); ++i) text += Line(rows_[i], widths);
  return text;
}

}  // namespace tensorkv::bench
