// Expressions that a fuzzer makes up: whatever is compiled runs within its
// slots, scalars and states, and the same for a pack as for elements alone.
//
//   tools/fuzz 10000000 expression

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/expression/expression.h"
#include "kernels/expression/run_pack.h"

namespace tensorkv {
namespace {

using expression::ElementProgram;
using expression::Instruction;
using expression::kFirstStateSlot;
using expression::kNumSlots;

constexpr int kPack = 3;
constexpr float kElements[kPack] = {-0.5f, 0, 3};

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "expected %s\n", what);
  std::abort();
}

// Of the states, slots beyond those of the program are not to be touched.
void CheckPlaces(const ElementProgram<float>& program) {
  const int first_unused = kFirstStateSlot + program.num_states;
  const auto is_slot = [&](uint8_t place) {
    return place < first_unused ||
           (place >= expression::kFirstTemporarySlot && place < kNumSlots);
  };
  for (int i = 0; i < program.num_instructions; ++i) {
    const Instruction instruction = program.instruction(i);
    Require(static_cast<int>(instruction.opcode) < expression::kNumOpcodes,
            "an opcode");
    Require(
        is_slot(instruction.out) && instruction.out != expression::kGradSlot,
        "a slot to write to");
    for (int k = 0; k < NumOperands(instruction.opcode); ++k) {
      const uint8_t place = instruction.operands[k];
      Require(expression::IsScalar(place)
                  ? place - expression::kFirstScalar < program.num_scalars
                  : is_slot(place),
              "an operand");
    }
  }
}

template <int size>
std::vector<float> Run(const ElementProgram<float>& program,
                       const float* elements) {
  float slots[kNumSlots][size] = {};
  for (int k = 0; k < kFirstStateSlot + program.num_states; ++k) {
    for (int i = 0; i < size; ++i) slots[k][i] = elements[i] + k;
  }
  RunPack(program, slots);
  return {slots[expression::kStoredSlot],
          slots[expression::kStoredSlot] + size};
}

// With the hyperparameters that the text seems to name.
void Check(absl::string_view text) {
  std::vector<std::string> names;
  for (const char* name : {"beta", "lr"}) {
    if (absl::StrContains(text, name)) names.push_back(name);
  }
  const absl::StatusOr<Expression> compiled = Expression::Compile(text, names);
  if (!compiled.ok()) return;
  const double values[] = {0.9, 0.1};
  const auto program = compiled->Bind<float>(
      absl::MakeConstSpan(values).first(names.size()), /*update_count=*/7);
  CheckPlaces(program);
  const std::vector<float> pack = Run<kPack>(program, kElements);
  for (int i = 0; i < kPack; ++i) {
    const float alone = Run<1>(program, kElements + i)[0];
    Require(alone == pack[i] || (std::isnan(alone) && std::isnan(pack[i])),
            "the same of an element alone");
  }
}

}  // namespace
}  // namespace tensorkv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorkv::Check(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
