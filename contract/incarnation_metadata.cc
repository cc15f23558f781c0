#include "contract/incarnation_metadata.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

constexpr size_t kDigits = 16;

}  // namespace

std::string FormatIncarnation(uint64_t incarnation) {
  return absl::StrCat(absl::Hex(incarnation, absl::kZeroPad16));
}

std::optional<uint64_t> ParseIncarnation(absl::string_view text) {
  uint64_t incarnation = 0;
  // SimpleHexAtoi would take a sign and a prefix too.
  for (const char c : text) {
    if (!absl::ascii_isxdigit(c)) return std::nullopt;
  }
  if (text.size() != kDigits || !absl::SimpleHexAtoi(text, &incarnation)) {
    return std::nullopt;
  }
  return incarnation;
}

}  // namespace tensorkv
