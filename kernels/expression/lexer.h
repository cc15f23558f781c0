// From the text of an expression to its words.

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
  // A kNumber's.
  double number = 0;
};

// The text, short and printable, between quotes.
std::string Quoted(absl::string_view text);

// InvalidArgument: `expression: line 2, column 7: expected ..., got ...`.
absl::Status ErrorAt(Position at, absl::string_view expected,
                     absl::string_view got);
absl::Status ErrorAt(const Token& token, absl::string_view expected);

// The words in their order; the last is the kEnd. A line ends a statement,
// except within parentheses; `#` starts a comment that ends with its line. All
// is ASCII.
// Errors: InvalidArgument for a character that no word begins with, a number
// that is not finite.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view text);

}  // namespace tensorkv::expression

#endif  // TENSORKV_KERNELS_EXPRESSION_LEXER_H_
