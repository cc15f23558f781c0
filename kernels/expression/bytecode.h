// An expression for the elements of one update, in the form that the CPU and
// the GPU interpret.
//
// Plain structs, copied to devices byte by byte. No Abseil and no CUDA.

#ifndef TENSORKV_KERNELS_EXPRESSION_BYTECODE_H_
#define TENSORKV_KERNELS_EXPRESSION_BYTECODE_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/expression/opcode.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::expression {

inline constexpr int kMaxStates = 4;
inline constexpr int kMaxTemporaries = 16;
inline constexpr int kMaxScalars = 64;
inline constexpr int kMaxInstructions = 256;

// Numbers of operands. A slot holds a number per element; a scalar is one
// number for all elements. Operands from kFirstScalar on are scalars.
inline constexpr uint8_t kStoredSlot = 0;
inline constexpr uint8_t kGradSlot = 1;
inline constexpr uint8_t kFirstStateSlot = 2;
inline constexpr uint8_t kFirstTemporarySlot = kFirstStateSlot + kMaxStates;
inline constexpr int kNumSlots = kFirstTemporarySlot + kMaxTemporaries;
inline constexpr uint8_t kFirstScalar = 32;
static_assert(kNumSlots <= kFirstScalar && kFirstScalar + kMaxScalars <= 256);

HOST_DEVICE bool IsScalar(uint8_t operand) { return operand >= kFirstScalar; }

// slots[out] = opcode(operands). Operands that the opcode does not have are 0.
struct Instruction {
  Opcode opcode;
  uint8_t out;
  uint8_t operands[kMaxOperands];
  uint8_t unused[3];
};
static_assert(sizeof(Instruction) == sizeof(uint64_t));

// The instructions of an expression with the scalars of one update. Before the
// first instruction the slots hold the stored value, the contribution and the
// states; after the last, the new value and the new states.
template <typename T>
struct ElementProgram {
  uint16_t num_scalars = 0;
  uint16_t num_instructions = 0;
  uint8_t num_states = 0;
  uint8_t unused[3] = {};
  // The scalars, then the instructions, with nothing in between.
  uint64_t words[kMaxScalars + kMaxInstructions];

  // Returns the bytes that are in use: those behind them need not be copied.
  size_t size_bytes() const {
    return offsetof(ElementProgram, words) +
           sizeof(uint64_t) * (num_scalars + num_instructions);
  }

  HOST_DEVICE Instruction instruction(int index) const {
    return __builtin_bit_cast(Instruction, words[num_scalars + index]);
  }
  // Returns the scalar of operand number `operand`. REQUIRES:
  // IsScalar(operand).
  HOST_DEVICE T scalar(uint8_t operand) const {
    using Bits = typename FloatFacts<T>::Bits;
    return FromBits<T>(static_cast<Bits>(words[operand - kFirstScalar]));
  }
};

// Whether a functor is an ElementProgram, which is interpreted in place (see
// run_pack.h) and not called with an element.
template <typename Op>
inline constexpr bool kIsProgram = false;
template <typename T>
inline constexpr bool kIsProgram<ElementProgram<T>> = true;

}  // namespace tensorkv::expression

namespace tensorkv::ops {

// The functor of the rule `expression`.
template <typename T>
using Expression = expression::ElementProgram<T>;

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_EXPRESSION_BYTECODE_H_
