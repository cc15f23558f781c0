// A rule that its user writes: from text to what the backends interpret.

#ifndef TENSORKV_KERNELS_EXPRESSION_EXPRESSION_H_
#define TENSORKV_KERNELS_EXPRESSION_EXPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/expression/bytecode.h"

namespace tensorkv {

inline constexpr int kMaxExpressionHyperparameters = 16;

// A checked and compiled expression: what one update computes of each element.
// proto/tensorkv/v1/rule.proto describes the language. Immutable.
//
// What depends on hyperparameters and the update count alone is computed once
// per update, in f64; the rest is computed per element, in the key's accumulate
// type, in the order in which it is written.
class Expression {
 public:
  // Checks and compiles `text`, in which each name of `hyperparameters` stands
  // for the hyperparameter's value.
  // Errors: InvalidArgument, with line and column, for what is no expression or
  // beyond the language's limits; for a hyperparameter that is not used or that
  // the language gives another meaning.
  static absl::StatusOr<Expression> Compile(
      absl::string_view text, absl::Span<const std::string> hyperparameters);

  // Returns the names of the states, in the order of their slots.
  const std::vector<std::string>& states() const { return states_; }

  // Returns how many instructions run for each element.
  size_t num_instructions() const { return instructions_.size(); }

  // Returns the program to run for each element of update `update_count` (from
  // 1), whose accumulate type is T: float or double. `hyperparameters` has a
  // value for each name that Compile was given, in the same order.
  template <typename T>
  expression::ElementProgram<T> Bind(absl::Span<const double> hyperparameters,
                                     uint64_t update_count) const;

 private:
  friend class ExpressionCompiler;

  // A number that all elements of an update share.
  struct Scalar {
    enum class Kind : uint8_t {
      kConstant,
      kHyperparameter,
      kUpdateCount,
      kOperation,
    };

    Kind kind;
    expression::Opcode opcode = expression::Opcode::kMove;
    // Indices of scalars before it; a hyperparameter's index is the first.
    uint16_t operands[expression::kMaxOperands] = {};
    double constant = 0;
  };

  Expression() = default;

  // Returns the values of scalars_, by index.
  absl::InlinedVector<double, 64> ScalarValues(
      absl::Span<const double> hyperparameters, uint64_t update_count) const;

  std::vector<std::string> states_;
  std::vector<Scalar> scalars_;
  // Indices in scalars_ of those that instructions read: operand kFirstScalar
  // is the first.
  std::vector<uint16_t> bound_scalars_;
  std::vector<expression::Instruction> instructions_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_EXPRESSION_EXPRESSION_H_
