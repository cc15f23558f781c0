// Texts that others have chosen, as messages and logs show them.

#ifndef TENSORKV_BASE_SHOWN_TEXT_H_
#define TENSORKV_BASE_SHOWN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The longest start of `text` of at most `max_bytes` bytes that ends between
// characters, where the text is UTF-8.
absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes);

// The Utf8Prefix of `text` without what a terminal or a line of a log would
// take for more than a character: quotes, backslashes and control characters,
// those of two bytes as well, are escaped as in C.
std::string Escaped(absl::string_view text, size_t max_bytes);

// Escaped, in quotes; "..." stands for what was cut off.
std::string Quoted(absl::string_view text, size_t max_bytes);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_SHOWN_TEXT_H_
