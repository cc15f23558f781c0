// From the text of an expression to its tokens.

#ifndef TENSORKV_KERNELS_EXPRESSION_LEXER_H_
#define TENSORKV_KERNELS_EXPRESSION_LEXER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv::expression {

// Both count from 1.
struct Position {
  int line = 1;
  int column = 1;
};

struct Token {
  enum class Kind { kName, kNumber, kSymbol, kEndOfStatement, kEnd };

  Kind kind;
  // Within the text given to Tokenize.
  absl::string_view text;
  Position at;
  // The value of a kNumber.
  double number = 0;
};

// Returns the first 64 bytes of the text between quotes, with all but printable
// ASCII escaped, and "..." if there are more.
std::string Quoted(absl::string_view text);

// Returns the error InvalidArgument, with the message
// `expression: line 2, column 7: expected ..., got ...`.
absl::Status ErrorAt(Position at, absl::string_view expected,
                     absl::string_view got);
// Returns such an error at `token`, which is what was got.
absl::Status ErrorAt(const Token& token, absl::string_view expected);

// Returns the tokens in their order, which refer to `text`; the last is the
// kEnd. A line break or `;` ends a statement, except a line break within
// parentheses; `#` starts a comment that ends with its line. The text must be
// ASCII, comments included.
// Errors: InvalidArgument for a character with which no token begins, or a
// number that is not finite.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view text);

}  // namespace tensorkv::expression

#endif  // TENSORKV_KERNELS_EXPRESSION_LEXER_H_
