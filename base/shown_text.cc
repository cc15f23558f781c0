#include "base/shown_text.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

bool ContinuesCharacter(char byte) { return (byte & 0xc0) == 0x80; }

// Returns whether U+0080 to U+009F begins there: terminals obey some of these.
bool IsLongControl(absl::string_view text) {
  return text.size() > 1 && text[0] == '\xc2' &&
         static_cast<uint8_t>(text[1]) >= 0x80 &&
         static_cast<uint8_t>(text[1]) < 0xa0;
}

}  // namespace

absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  // A character has at most three bytes after its first.
  while (end > 0 && max_bytes - end < 3 && ContinuesCharacter(text[end])) --end;
  return text.substr(0, ContinuesCharacter(text[end]) ? max_bytes : end);
}

std::string Escaped(absl::string_view text, size_t max_bytes) {
  const std::string escaped =
      absl::Utf8SafeCEscape(Utf8Prefix(text, max_bytes));
  std::string shown;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (IsLongControl(absl::string_view(escaped).substr(i))) {
      shown += absl::CEscape(escaped.substr(i++, 2));
    } else {
      shown += escaped[i];
    }
  }
  return shown;
}

std::string Quoted(absl::string_view text, size_t max_bytes) {
  return absl::StrCat("\"", Escaped(text, max_bytes),
                      text.size() > max_bytes ? "...\"" : "\"");
}

}  // namespace tensorkv
