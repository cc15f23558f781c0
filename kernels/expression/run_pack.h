// Interprets an expression for a few elements at once, as one thread of a GPU
// does, for host and device.

#ifndef TENSORKV_KERNELS_EXPRESSION_RUN_PACK_H_
#define TENSORKV_KERNELS_EXPRESSION_RUN_PACK_H_

#include <stdint.h>

#include "kernels/expression/bytecode.h"
#include "kernels/expression/opcode.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::expression {

// Returns the value of the instruction's operand `index` for element `i`.
template <typename T, int size>
HOST_DEVICE T OperandOf(const ElementProgram<T>& program,
                        const Instruction& instruction, int index,
                        const T (&slots)[kNumSlots][size], int i) {
  const uint8_t operand = instruction.operands[index];
  return IsScalar(operand) ? program.scalar(operand) : slots[operand][i];
}

// Runs the program over `size` elements; slots[k][i] is slot k of element i.
template <typename T, int size>
HOST_DEVICE void RunPack(const ElementProgram<T>& program,
                         T (&slots)[kNumSlots][size]) {
  for (int next = 0; next < program.num_instructions; ++next) {
    const Instruction instruction = program.instruction(next);
    VisitOpcode(instruction.opcode, [&](auto tag) {
      constexpr Opcode kOpcode = decltype(tag)::value;
      constexpr int kNumOperands = NumOperands(kOpcode);
      for (int i = 0; i < size; ++i) {
        T operands[kMaxOperands] = {};
        for (int k = 0; k < kNumOperands; ++k) {
          operands[k] = OperandOf(program, instruction, k, slots, i);
        }
        slots[instruction.out][i] =
            Evaluate<kOpcode>(operands[0], operands[1], operands[2]);
      }
    });
  }
}

}  // namespace tensorkv::expression

#endif  // TENSORKV_KERNELS_EXPRESSION_RUN_PACK_H_
