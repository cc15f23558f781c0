#include "kernels/expression/lexer.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::expression {
namespace {

// None comes after its own beginning.
constexpr absl::string_view kSymbols[] = {
    "+=", "-=", "*=", "/=", "<=", ">=", "==", "!=", "+",
    "-",  "*",  "/",  "=",  "<",  ">",  "(",  ")",  ","};

bool IsDigit(char c) { return absl::ascii_isdigit(c); }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }
// Texts are shown on terminals: nothing but what prints.
bool BelongsToComment(char c) { return IsSpace(c) || absl::ascii_isprint(c); }
bool StartsName(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool ContinuesName(char c) { return StartsName(c) || IsDigit(c); }

class Lexer {
 public:
  explicit Lexer(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (next_ < text_.size()) RETURN_IF_ERROR(TakeOne());
    Add(Token::Kind::kEnd, 0);
    return std::move(tokens_);
  }

 private:
  absl::Status TakeOne() {
    const char c = text_[next_];
    if (IsDigit(c) || (c == '.' && IsDigit(At(next_ + 1)))) return TakeNumber();
    if (c == '\n') {
      TakeLineEnd();
    } else if (IsSpace(c)) {
      ++next_;
    } else if (c == '#') {
      next_ += LengthOf(next_, BelongsToComment);
    } else if (c == ';') {
      Add(Token::Kind::kEndOfStatement, 1);
    } else if (StartsName(c)) {
      Add(Token::Kind::kName, LengthOf(next_, ContinuesName));
    } else {
      return TakeSymbol();
    }
    return absl::OkStatus();
  }

  void TakeLineEnd() {
    if (num_open_ == 0) {
      Add(Token::Kind::kEndOfStatement, 1);
    } else {
      ++next_;
    }
    ++line_;
    line_start_ = next_;
  }

  // Takes digits with a point somewhere, and an exponent.
  absl::Status TakeNumber() {
    size_t end = next_ + LengthOf(next_, IsDigit);
    if (At(end) == '.') end += 1 + LengthOf(end + 1, IsDigit);
    if (At(end) == 'e' || At(end) == 'E') {
      const bool has_sign = At(end + 1) == '+' || At(end + 1) == '-';
      const size_t digits = end + 1 + has_sign;
      if (IsDigit(At(digits))) end = digits + LengthOf(digits, IsDigit);
    }
    const Position at = Here();
    const absl::string_view word = text_.substr(next_, end - next_);
    double number = 0;
    if (!absl::SimpleAtod(word, &number) || !std::isfinite(number)) {
      return ErrorAt(at, "a finite number", Quoted(word));
    }
    Add(Token::Kind::kNumber, word.size());
    tokens_.back().number = number;
    return absl::OkStatus();
  }

  absl::Status TakeSymbol() {
    const absl::string_view rest = text_.substr(next_);
    for (const absl::string_view symbol : kSymbols) {
      if (!absl::StartsWith(rest, symbol)) continue;
      if (symbol == "(") ++num_open_;
      if (symbol == ")" && num_open_ > 0) --num_open_;
      Add(Token::Kind::kSymbol, symbol.size());
      return absl::OkStatus();
    }
    return ErrorAt(Here(), "a name, a number or an operator",
                   Quoted(rest.substr(0, 1)));
  }

  void Add(Token::Kind kind, size_t size) {
    tokens_.push_back({kind, text_.substr(next_, size), Here()});
    next_ += size;
  }

  template <typename Predicate>
  size_t LengthOf(size_t begin, Predicate belongs) const {
    size_t end = begin;
    while (end < text_.size() && belongs(text_[end])) ++end;
    return end - begin;
  }

  char At(size_t place) const {
    return place < text_.size() ? text_[place] : '\0';
  }
  Position Here() const {
    return {line_, static_cast<int>(next_ - line_start_) + 1};
  }

  const absl::string_view text_;
  std::vector<Token> tokens_;
  size_t next_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  int num_open_ = 0;
};

}  // namespace

std::string Quoted(absl::string_view text) {
  constexpr size_t kMaxShown = 64;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...\"" : "\"");
}

absl::Status ErrorAt(Position at, absl::string_view expected,
                     absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat("expression: line ", at.line, ", column ", at.column,
                   ": expected ", expected, ", got ", got));
}

absl::Status ErrorAt(const Token& token, absl::string_view expected) {
  switch (token.kind) {
    case Token::Kind::kEnd:
      return ErrorAt(token.at, expected, "the end");
    case Token::Kind::kEndOfStatement:
      return ErrorAt(token.at, expected, "the end of the statement");
    default:
      return ErrorAt(token.at, expected, Quoted(token.text));
  }
}

absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view text) {
  return Lexer(text).Run();
}

}  // namespace tensorkv::expression
