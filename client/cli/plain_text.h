// Makes text for a terminal of what others have sent.

#ifndef TENSORKV_CLIENT_CLI_PLAIN_TEXT_H_
#define TENSORKV_CLIENT_CLI_PLAIN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns `text` on one line, and no command for the terminal: with a blank for
// each control character, U+0000 to U+001F and U+007F to U+009F.
std::string PlainText(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_PLAIN_TEXT_H_
