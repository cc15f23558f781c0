#include "contract/slices.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tensorkv {
namespace {

// As many as a shape has.
constexpr size_t kMaxRank = 8;

// Parses decimal digits without zeros before them, so that a number has one
// text.
template <typename Number>
bool ParseNumber(absl::string_view text, Number& number) {
  const bool is_plain = !text.empty() &&
                        absl::c_all_of(text, absl::ascii_isdigit) &&
                        (text.size() == 1 || text.front() != '0');
  return is_plain && absl::SimpleAtoi(text, &number);
}

// Takes what stands before the next '/', and that.
bool TakeField(absl::string_view& text, absl::string_view& field) {
  const size_t end = text.find('/');
  if (end == absl::string_view::npos) return false;
  field = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

bool ParseDimensions(absl::string_view text, std::vector<int64_t>& dimensions) {
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (!ParseNumber(part, dimensions.emplace_back())) return false;
  }
  return dimensions.size() <= kMaxRank;
}

// Reads a name up to its key, and takes what was read from `text`.
std::optional<SliceName> TakePrefix(absl::string_view& text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kSliceMark)) return std::nullopt;
  SliceName name;
  absl::string_view index, count, dimensions;
  const bool is_slice =
      TakeField(rest, index) && TakeField(rest, count) &&
      TakeField(rest, dimensions) && ParseNumber(index, name.index) &&
      ParseNumber(count, name.count) && name.index < name.count &&
      ParseDimensions(dimensions, name.dimensions) &&
      name.dimensions.front() >= name.count;
  if (!is_slice) return std::nullopt;
  text = rest;
  return name;
}

}  // namespace

std::optional<SliceName> ParseSliceName(absl::string_view name) {
  std::optional<SliceName> slice = TakePrefix(name);
  if (!slice || name.empty()) return std::nullopt;
  slice->key = name;
  return slice;
}

std::string SliceNameOf(absl::string_view key, uint32_t index, uint32_t count,
                        absl::Span<const int64_t> dimensions) {
  return absl::StrCat(kSliceMark, index, "/", count, "/",
                      absl::StrJoin(dimensions, ","), "/", key);
}

absl::string_view WholeKeyOf(absl::string_view name) {
  const std::optional<SliceName> slice = ParseSliceName(name);
  return slice ? slice->key : name;
}

std::string WithWholeKeys(absl::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t begin = std::min(text.find(kSliceMark), text.size());
    absl::StrAppend(&result, text.substr(0, begin));
    text.remove_prefix(begin);
    if (text.empty() || TakePrefix(text)) continue;
    absl::StrAppend(&result, kSliceMark);
    text.remove_prefix(kSliceMark.size());
  }
  return result;
}

int64_t FirstRowOfSlice(int64_t num_rows, uint32_t index, uint32_t count) {
  return num_rows / count * index + std::min<int64_t>(index, num_rows % count);
}

bool NeedsWholeKeys(absl::string_view rule) {
  return rule == "lars" || rule == "lamb" || rule == "lans" ||
         rule == "adafactor";
}

}  // namespace tensorkv
