// From the text of an expression to its statements.

#ifndef TENSORKV_KERNELS_EXPRESSION_PARSER_H_
#define TENSORKV_KERNELS_EXPRESSION_PARSER_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/expression/lexer.h"
#include "kernels/expression/opcode.h"

namespace tensorkv::expression {

inline constexpr size_t kMaxTextBytes = 4096;
inline constexpr int kMaxNesting = 32;

// A node of a syntax tree: a number, a name, or an operation on nodes that come
// before it.
struct Node {
  enum class Kind { kNumber, kName, kOperation };

  Kind kind;
  Position at;
  double number = 0;
  absl::string_view name;
  Opcode opcode = Opcode::kMove;
  // Indices in ParsedProgram::nodes.
  int operands[kMaxOperands] = {};
};

// `name = term`, which `name += term` and the like have been turned into.
struct Assignment {
  absl::string_view name;
  Position at;
  // One after the assignment's last node, whose value it assigns. Its nodes
  // begin where those of the assignment before end.
  int end_node;
};

struct StateDeclaration {
  absl::string_view name;
  Position at;
};

// The statements of a text, to which it refers.
struct ParsedProgram {
  std::vector<StateDeclaration> states;
  std::vector<Assignment> assignments;
  std::vector<Node> nodes;
  // The end of the text.
  Position end;
};

// Returns whether `name` is a function of the language or the word `state`.
bool IsReserved(absl::string_view name);

// Parses a text of the grammar that proto/tensorkv/v1/rule.proto describes.
// Does not check whether the names exist. The result refers to `text`.
//
// Errors: InvalidArgument, naming line and column; or for more than
// kMaxTextBytes.
absl::StatusOr<ParsedProgram> Parse(absl::string_view text);

}  // namespace tensorkv::expression

#endif  // TENSORKV_KERNELS_EXPRESSION_PARSER_H_
