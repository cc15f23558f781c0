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

// A part of a term: a number, a name, or an operation on parts that come
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

// `name = term`; what `name += term` stands for too.
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

// Refers to the text.
struct ParsedProgram {
  std::vector<StateDeclaration> states;
  std::vector<Assignment> assignments;
  std::vector<Node> nodes;
  Position end;
};

// Whether names of the language's own are spelled so: functions and `state`.
bool IsReserved(absl::string_view name);

// Reads the grammar that proto/tensorkv/v1/rule.proto describes. Does not look
// at what the names mean.
// Errors: InvalidArgument, naming line and column.
absl::StatusOr<ParsedProgram> Parse(absl::string_view text);

}  // namespace tensorkv::expression

#endif  // TENSORKV_KERNELS_EXPRESSION_PARSER_H_
