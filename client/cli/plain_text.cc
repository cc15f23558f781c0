#include "client/cli/plain_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"

namespace tensorkv {
namespace {

// Returns how many bytes the control character takes that `text` begins with,
// in UTF-8; 0 if it begins with another.
size_t ControlLength(absl::string_view text) {
  if (absl::ascii_iscntrl(text[0])) return 1;
  if (text.size() < 2 || text[0] != '\xc2') return 0;
  const auto second = static_cast<uint8_t>(text[1]);
  return second >= 0x80 && second <= 0x9f ? 2 : 0;
}

}  // namespace

std::string PlainText(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t length = ControlLength(text.substr(i));
    plain += length == 0 ? text[i] : ' ';
    if (length > 1) ++i;
  }
  return plain;
}

}  // namespace tensorkv
