#include "kernels/expression/expression.h"

#include <cstddef>

#include "kernels/expression/opcode.h"

namespace tensorkv {

using expression::ElementProgram;
using expression::Evaluate;
using expression::FloatFacts;
using expression::VisitOpcode;

absl::InlinedVector<double, 64> Expression::ScalarValues(
    absl::Span<const double> hyperparameters, uint64_t update_count) const {
  absl::InlinedVector<double, 64> values(scalars_.size());
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const Scalar& scalar = scalars_[i];
    const uint16_t* const operands = scalar.operands;
    switch (scalar.kind) {
      case Scalar::Kind::kConstant:
        values[i] = scalar.constant;
        break;
      case Scalar::Kind::kHyperparameter:
        values[i] = hyperparameters[operands[0]];
        break;
      case Scalar::Kind::kUpdateCount:
        values[i] = static_cast<double>(update_count);
        break;
      case Scalar::Kind::kOperation:
        VisitOpcode(scalar.opcode, [&](auto tag) {
          values[i] = Evaluate<decltype(tag)::value>(
              values[operands[0]], values[operands[1]], values[operands[2]]);
        });
        break;
    }
  }
  return values;
}

template <typename T>
ElementProgram<T> Expression::Bind(absl::Span<const double> hyperparameters,
                                   uint64_t update_count) const {
  const auto values = ScalarValues(hyperparameters, update_count);
  ElementProgram<T> program;
  program.num_scalars = static_cast<uint16_t>(bound_scalars_.size());
  program.num_instructions = static_cast<uint16_t>(instructions_.size());
  program.num_states = static_cast<uint8_t>(states_.size());
  uint64_t* word = program.words;
  for (const uint16_t scalar : bound_scalars_) {
    *word++ = expression::BitsOf(static_cast<T>(values[scalar]));
  }
  for (const expression::Instruction& instruction : instructions_) {
    *word++ = __builtin_bit_cast(uint64_t, instruction);
  }
  return program;
}

template ElementProgram<float> Expression::Bind(absl::Span<const double>,
                                                uint64_t) const;
template ElementProgram<double> Expression::Bind(absl::Span<const double>,
                                                 uint64_t) const;

}  // namespace tensorkv
