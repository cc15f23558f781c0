#include "service/rpc/trace_context.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tensorkv {
namespace {

bool IsHexadecimal(absl::string_view text, size_t size) {
  return text.size() == size &&
         std::all_of(text.begin(), text.end(), [](char each) {
           return absl::ascii_isxdigit(each) && !absl::ascii_isupper(each);
         });
}

// An id of zeros is none.
bool IsId(absl::string_view text, size_t size) {
  return IsHexadecimal(text, size) &&
         text.find_first_not_of('0') != absl::string_view::npos;
}

}  // namespace

// Parses VERSION-TRACE-SPAN-FLAGS; later versions may have more after another
// '-'.
std::string ParseTraceParent(absl::string_view value) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(value, absl::MaxSplits('-', 4));
  const bool is_one =
      parts.size() == 4 || (parts.size() == 5 && parts[0] != "00");
  if (!is_one || parts[0] == "ff" || !IsHexadecimal(parts[0], 2) ||
      !IsId(parts[1], 32) || !IsId(parts[2], 16) ||
      !IsHexadecimal(parts[3], 2)) {
    return "";
  }
  return absl::StrCat(parts[1], "-", parts[2]);
}

}  // namespace tensorkv
