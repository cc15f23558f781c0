// What one instruction of an expression does to one element.

#ifndef TENSORKV_KERNELS_EXPRESSION_OPCODE_H_
#define TENSORKV_KERNELS_EXPRESSION_OPCODE_H_

#include <stdint.h>

#include "kernels/expression/element_math.h"
#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::expression {

enum class Opcode : uint8_t {
  kMove,
  kNegate,
  kAbsolute,
  kSign,
  kSquareRoot,
  kExp,
  kLog,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMin,
  kMax,
  kPow,
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,
  kSelect,
};
inline constexpr int kNumOpcodes = 19;

inline constexpr int kMaxOperands = 3;

constexpr int NumOperands(Opcode opcode) {
  if (opcode == Opcode::kSelect) return 3;
  return opcode >= Opcode::kAdd ? 2 : 1;
}

// Returns the result of one instruction for one element; comparisons give 1 or
// 0. Ignores operands that the opcode does not have.
template <Opcode opcode, typename T>
HOST_DEVICE T Evaluate(T a, T b, T c) {
  if constexpr (opcode == Opcode::kMove) return a;
  if constexpr (opcode == Opcode::kNegate) return -a;
  if constexpr (opcode == Opcode::kAbsolute) return Absolute(a);
  if constexpr (opcode == Opcode::kSign) return Sign(a);
  if constexpr (opcode == Opcode::kSquareRoot) return ops::SquareRoot(a);
  if constexpr (opcode == Opcode::kExp) return Exp(a);
  if constexpr (opcode == Opcode::kLog) return Log(a);
  if constexpr (opcode == Opcode::kAdd) return a + b;
  if constexpr (opcode == Opcode::kSubtract) return a - b;
  if constexpr (opcode == Opcode::kMultiply) return a * b;
  if constexpr (opcode == Opcode::kDivide) return a / b;
  if constexpr (opcode == Opcode::kMin) return Min(a, b);
  if constexpr (opcode == Opcode::kMax) return Max(a, b);
  if constexpr (opcode == Opcode::kPow) return Pow(a, b);
  if constexpr (opcode == Opcode::kLess) return a < b ? T(1) : T(0);
  if constexpr (opcode == Opcode::kLessEqual) return a <= b ? T(1) : T(0);
  if constexpr (opcode == Opcode::kEqual) return a == b ? T(1) : T(0);
  if constexpr (opcode == Opcode::kNotEqual) return a != b ? T(1) : T(0);
  if constexpr (opcode == Opcode::kSelect) return a != 0 ? b : c;
}

template <Opcode opcode>
struct OpcodeTag {
  static constexpr Opcode value = opcode;
};

// Calls `visit` with the OpcodeTag of `opcode`. On a GPU all threads of a block
// take the same branch.
template <typename Visitor>
HOST_DEVICE void VisitOpcode(Opcode opcode, Visitor visit) {
  switch (opcode) {
    case Opcode::kMove:
      return visit(OpcodeTag<Opcode::kMove>());
    case Opcode::kNegate:
      return visit(OpcodeTag<Opcode::kNegate>());
    case Opcode::kAbsolute:
      return visit(OpcodeTag<Opcode::kAbsolute>());
    case Opcode::kSign:
      return visit(OpcodeTag<Opcode::kSign>());
    case Opcode::kSquareRoot:
      return visit(OpcodeTag<Opcode::kSquareRoot>());
    case Opcode::kExp:
      return visit(OpcodeTag<Opcode::kExp>());
    case Opcode::kLog:
      return visit(OpcodeTag<Opcode::kLog>());
    case Opcode::kAdd:
      return visit(OpcodeTag<Opcode::kAdd>());
    case Opcode::kSubtract:
      return visit(OpcodeTag<Opcode::kSubtract>());
    case Opcode::kMultiply:
      return visit(OpcodeTag<Opcode::kMultiply>());
    case Opcode::kDivide:
      return visit(OpcodeTag<Opcode::kDivide>());
    case Opcode::kMin:
      return visit(OpcodeTag<Opcode::kMin>());
    case Opcode::kMax:
      return visit(OpcodeTag<Opcode::kMax>());
    case Opcode::kPow:
      return visit(OpcodeTag<Opcode::kPow>());
    case Opcode::kLess:
      return visit(OpcodeTag<Opcode::kLess>());
    case Opcode::kLessEqual:
      return visit(OpcodeTag<Opcode::kLessEqual>());
    case Opcode::kEqual:
      return visit(OpcodeTag<Opcode::kEqual>());
    case Opcode::kNotEqual:
      return visit(OpcodeTag<Opcode::kNotEqual>());
    case Opcode::kSelect:
      return visit(OpcodeTag<Opcode::kSelect>());
  }
}

}  // namespace tensorkv::expression

#endif  // TENSORKV_KERNELS_EXPRESSION_OPCODE_H_
