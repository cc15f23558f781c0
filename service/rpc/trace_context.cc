#include "service/rpc/trace_context.h"

#include <algorithm>

namespace tensorkv {
namespace {

// VERSION-TRACE-SPAN-FLAGS; later versions may have more after another '-'.
constexpr size_t kTrace = 3;
constexpr size_t kSpan = kTrace + 32 + 1;
constexpr size_t kFlags = kSpan + 16 + 1;
constexpr size_t kEnd = kFlags + 2;

bool IsHexadecimal(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char each) {
    return (each >= '0' && each <= '9') || (each >= 'a' && each <= 'f');
  });
}

bool IsNone(absl::string_view id) {
  return id.find_first_not_of('0') == absl::string_view::npos;
}

bool HasForm(absl::string_view value) {
  if (value.size() < kEnd) return false;
  const absl::string_view version = value.substr(0, 2);
  if (version == "ff" || (version == "00" && value.size() > kEnd)) return false;
  return value[2] == '-' && value[kSpan - 1] == '-' &&
         value[kFlags - 1] == '-' &&
         (value.size() == kEnd || value[kEnd] == '-') &&
         IsHexadecimal(version) &&
         IsHexadecimal(value.substr(kTrace, kSpan - 1 - kTrace)) &&
         IsHexadecimal(value.substr(kSpan, kFlags - 1 - kSpan)) &&
         IsHexadecimal(value.substr(kFlags, kEnd - kFlags));
}

}  // namespace

std::string ParseTraceParent(absl::string_view value) {
  if (!HasForm(value)) return "";
  if (IsNone(value.substr(kTrace, kSpan - 1 - kTrace)) ||
      IsNone(value.substr(kSpan, kFlags - 1 - kSpan))) {
    return "";
  }
  return std::string(value.substr(kTrace, kFlags - 1 - kTrace));
}

}  // namespace tensorkv
