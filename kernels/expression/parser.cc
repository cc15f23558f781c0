#include "kernels/expression/parser.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace tensorkv::expression {
namespace {

constexpr absl::string_view kState = "state";

struct Operator {
  absl::string_view symbol;
  Opcode opcode;
  // a > b is b < a.
  bool is_swapped = false;
};

constexpr Operator kSums[] = {{"+", Opcode::kAdd}, {"-", Opcode::kSubtract}};
constexpr Operator kProducts[] = {{"*", Opcode::kMultiply},
                                  {"/", Opcode::kDivide}};
constexpr Operator kComparisons[] = {
    {"<", Opcode::kLess},       {"<=", Opcode::kLessEqual},
    {">", Opcode::kLess, true}, {">=", Opcode::kLessEqual, true},
    {"==", Opcode::kEqual},     {"!=", Opcode::kNotEqual},
};
constexpr Operator kCompoundAssignments[] = {{"+=", Opcode::kAdd},
                                             {"-=", Opcode::kSubtract},
                                             {"*=", Opcode::kMultiply},
                                             {"/=", Opcode::kDivide}};

// How a function is computed: by one instruction, or by two.
enum class Form { kDirect, kReciprocal, kClip };

struct Function {
  absl::string_view name;
  int num_arguments;
  Opcode opcode;
  Form form = Form::kDirect;
};

constexpr Function kFunctions[] = {
    {"abs", 1, Opcode::kAbsolute},
    {"clip", 3, Opcode::kMin, Form::kClip},
    {"exp", 1, Opcode::kExp},
    {"log", 1, Opcode::kLog},
    {"max", 2, Opcode::kMax},
    {"min", 2, Opcode::kMin},
    {"pow", 2, Opcode::kPow},
    {"rsqrt", 1, Opcode::kSquareRoot, Form::kReciprocal},
    {"select", 3, Opcode::kSelect},
    {"sign", 1, Opcode::kSign},
    {"sqrt", 1, Opcode::kSquareRoot},
};

const Function* FindFunction(absl::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

std::string FunctionNames() {
  std::string names;
  for (const Function& function : kFunctions) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", function.name);
  }
  return names;
}

// Recursive descent. Each Read returns the node of what it has read.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<ParsedProgram> Run() {
    while (Peek().kind != Token::Kind::kEnd) {
      if (Peek().kind == Token::Kind::kEndOfStatement) {
        ++next_;
        continue;
      }
      RETURN_IF_ERROR(ReadStatement());
    }
    program_.end = Peek().at;
    return std::move(program_);
  }

 private:
  absl::Status ReadStatement() {
    if (Peek().kind != Token::Kind::kName) {
      return ErrorAt(Peek(), "the name of what is assigned");
    }
    RETURN_IF_ERROR(Peek().text == kState ? ReadStates() : ReadAssignment());
    const Token::Kind after = Peek().kind;
    if (after != Token::Kind::kEndOfStatement && after != Token::Kind::kEnd) {
      return ErrorAt(Peek(), "an operator or the end of the statement");
    }
    return absl::OkStatus();
  }

  absl::Status ReadStates() {
    do {
      ++next_;  // `state`, or the comma
      const Token& name = Peek();
      if (name.kind != Token::Kind::kName || IsReserved(name.text)) {
        return ErrorAt(name, "the name of a state");
      }
      program_.states.push_back({name.text, name.at});
      ++next_;
    } while (IsNext(","));
    return absl::OkStatus();
  }

  absl::Status ReadAssignment() {
    const Token& name = tokens_[next_++];
    if (IsReserved(name.text)) {
      return ErrorAt(name, "the name of what is assigned");
    }
    if (const Operator* found = Accept(kCompoundAssignments)) {
      const int before = AddName(name);
      ASSIGN_OR_RETURN(const int term, ReadTerm());
      AddOperation(found->opcode, name.at, {before, term});
    } else if (IsNext("=")) {
      ++next_;
      RETURN_IF_ERROR(ReadTerm().status());
    } else {
      return ErrorAt(Peek(), "=, +=, -=, *= or /=");
    }
    program_.assignments.push_back(
        {name.text, name.at, static_cast<int>(program_.nodes.size())});
    return absl::OkStatus();
  }

  // Reads one comparison at most: those of comparisons need parentheses.
  absl::StatusOr<int> ReadTerm() {
    ASSIGN_OR_RETURN(const int left, ReadSum());
    const Position at = Peek().at;
    const Operator* const found = Accept(kComparisons);
    if (found == nullptr) return left;
    ASSIGN_OR_RETURN(const int right, ReadSum());
    return found->is_swapped ? AddOperation(found->opcode, at, {right, left})
                             : AddOperation(found->opcode, at, {left, right});
  }

  absl::StatusOr<int> ReadSum() {
    return ReadChain(kSums, [this] { return ReadProduct(); });
  }
  absl::StatusOr<int> ReadProduct() {
    return ReadChain(kProducts, [this] { return ReadFactor(); });
  }

  // Reads parts with operators between them, from the left.
  template <typename ReadPart>
  absl::StatusOr<int> ReadChain(absl::Span<const Operator> operators,
                                ReadPart read_part) {
    ASSIGN_OR_RETURN(int result, read_part());
    for (;;) {
      const Position at = Peek().at;
      const Operator* const found = Accept(operators);
      if (found == nullptr) return result;
      ASSIGN_OR_RETURN(const int right, read_part());
      result = AddOperation(found->opcode, at, {result, right});
    }
  }

  absl::StatusOr<int> ReadFactor() {
    const Token& first = Peek();
    if (first.kind == Token::Kind::kNumber) {
      ++next_;
      return Add({.kind = Node::Kind::kNumber,
                  .at = first.at,
                  .number = first.number});
    }
    const bool is_name = first.kind == Token::Kind::kName;
    if (is_name && !IsOpening(tokens_[next_ + 1])) return ReadNameOrCall();
    if (nesting_ == kMaxNesting) {
      return ErrorAt(first, absl::StrCat("at most ", kMaxNesting,
                                         " parentheses, calls and signs "
                                         "inside of each other"));
    }
    ++nesting_;
    absl::StatusOr<int> factor = ReadNested();
    --nesting_;
    return factor;
  }

  // Reads what has others inside: a call, a sign or parentheses.
  absl::StatusOr<int> ReadNested() {
    const Token& first = Peek();
    if (first.kind == Token::Kind::kName) return ReadNameOrCall();
    if (IsNext("+")) {
      ++next_;
      return ReadFactor();
    }
    if (IsNext("-")) {
      ++next_;
      ASSIGN_OR_RETURN(const int factor, ReadFactor());
      return AddOperation(Opcode::kNegate, first.at, {factor});
    }
    if (!IsNext("(")) return ErrorAt(first, "a number, a name or \"(\"");
    ++next_;
    ASSIGN_OR_RETURN(const int term, ReadTerm());
    RETURN_IF_ERROR(Expect(")", "an operator or \")\""));
    return term;
  }

  absl::StatusOr<int> ReadNameOrCall() {
    const Token& name = tokens_[next_++];
    const Function* const function = FindFunction(name.text);
    if (IsNext("(")) {
      if (function == nullptr) {
        return ErrorAt(name,
                       absl::StrCat("a function out of ", FunctionNames()));
      }
      return ReadCall(name, *function);
    }
    if (function != nullptr) {
      return ErrorAt(Peek(), absl::StrCat("\"(\" after ", name.text));
    }
    if (name.text == kState) return ErrorAt(name, "a number, a name or \"(\"");
    return AddName(name);
  }

  absl::StatusOr<int> ReadCall(const Token& name, const Function& function) {
    int arguments[kMaxOperands] = {};
    for (int i = 0; i < function.num_arguments; ++i) {
      RETURN_IF_ERROR(
          i == 0 ? Expect("(", "\"(\"")
                 : Expect(",", absl::StrCat(function.num_arguments,
                                            " arguments of ", function.name)));
      ASSIGN_OR_RETURN(arguments[i], ReadTerm());
    }
    RETURN_IF_ERROR(
        Expect(")", absl::StrCat("\")\" after ", function.num_arguments,
                                 " arguments of ", function.name)));
    return AddCall(name, function, arguments);
  }

  int AddCall(const Token& name, const Function& function,
              const int (&arguments)[kMaxOperands]) {
    switch (function.form) {
      case Form::kDirect:
        return AddOperation(function.opcode, name.at,
                            {arguments[0], arguments[1], arguments[2]});
      case Form::kReciprocal: {
        const int one =
            Add({.kind = Node::Kind::kNumber, .at = name.at, .number = 1});
        const int divisor =
            AddOperation(function.opcode, name.at, {arguments[0]});
        return AddOperation(Opcode::kDivide, name.at, {one, divisor});
      }
      case Form::kClip: {
        const int above =
            AddOperation(Opcode::kMax, name.at, {arguments[0], arguments[1]});
        return AddOperation(Opcode::kMin, name.at, {above, arguments[2]});
      }
    }
    return 0;
  }

  struct Operands {
    int indices[kMaxOperands] = {};
  };
  int AddOperation(Opcode opcode, Position at, Operands operands) {
    Node node = {.kind = Node::Kind::kOperation, .at = at, .opcode = opcode};
    for (int i = 0; i < NumOperands(opcode); ++i) {
      node.operands[i] = operands.indices[i];
    }
    return Add(node);
  }
  int AddName(const Token& name) {
    return Add({.kind = Node::Kind::kName, .at = name.at, .name = name.text});
  }
  int Add(const Node& node) {
    program_.nodes.push_back(node);
    return static_cast<int>(program_.nodes.size()) - 1;
  }

  const Token& Peek() const { return tokens_[next_]; }
  static bool IsOpening(const Token& token) {
    return token.kind == Token::Kind::kSymbol && token.text == "(";
  }
  bool IsNext(absl::string_view symbol) const {
    return Peek().kind == Token::Kind::kSymbol && Peek().text == symbol;
  }
  // Takes one of the operators; null where none comes next.
  const Operator* Accept(absl::Span<const Operator> operators) {
    for (const Operator& one : operators) {
      if (!IsNext(one.symbol)) continue;
      ++next_;
      return &one;
    }
    return nullptr;
  }
  absl::Status Expect(absl::string_view symbol, absl::string_view expected) {
    if (!IsNext(symbol)) return ErrorAt(Peek(), expected);
    ++next_;
    return absl::OkStatus();
  }

  const std::vector<Token> tokens_;
  size_t next_ = 0;
  int nesting_ = 0;
  ParsedProgram program_;
};

}  // namespace

bool IsReserved(absl::string_view name) {
  return name == kState || FindFunction(name) != nullptr;
}

absl::StatusOr<ParsedProgram> Parse(absl::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expression: expected at most ", kMaxTextBytes,
                     " bytes, got ", text.size()));
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(text));
  return Parser(std::move(tokens)).Run();
}

}  // namespace tensorkv::expression
