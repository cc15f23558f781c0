// Texts that others have chosen, as messages and logs show them.

#ifndef TENSORKV_BASE_SHOWN_TEXT_H_
#define TENSORKV_BASE_SHOWN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns the longest start of `text` of at most `max_bytes` bytes that ends
// between characters; where the text is not UTF-8, its first `max_bytes` bytes.
absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes);

// Returns the Utf8Prefix of `text` with quotes, backslashes and control
// characters, also those of two bytes, escaped as in C: a terminal or a line of
// a log takes nothing in it for a command. The result may be longer than
// `max_bytes`.
std::string Escaped(absl::string_view text, size_t max_bytes);

// Returns Escaped(text, max_bytes) in quotes, with "..." before the closing
// quote if `text` is longer.
std::string Quoted(absl::string_view text, size_t max_bytes);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_SHOWN_TEXT_H_
