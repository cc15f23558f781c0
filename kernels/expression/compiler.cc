// Expression::Compile. Two steps: the meaning of the statements, as operations
// on values that never change (names stand for values, equal operations are one
// value); then the places of the values that the results need.

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/expression/expression.h"
#include "kernels/expression/parser.h"

namespace tensorkv {

using expression::Assignment;
using expression::ErrorAt;
using expression::Instruction;
using expression::kMaxInstructions;
using expression::kMaxOperands;
using expression::Node;
using expression::NumOperands;
using expression::Opcode;
using expression::ParsedProgram;
using expression::Position;
using expression::Quoted;

namespace {

constexpr absl::string_view kStored = "stored";
constexpr absl::string_view kGrad = "grad";
constexpr absl::string_view kInput = "input";  // the same as grad
constexpr absl::string_view kStep = "step";

bool IsGiven(absl::string_view name) {
  return name == kStored || name == kGrad || name == kInput || name == kStep;
}

// A scalar, or a number per element: the first are what the slots hold at the
// beginning, the others are the results of operations.
struct Value {
  bool is_scalar = false;
  int index = 0;

  friend auto operator<=>(const Value&, const Value&) = default;
};

using Operands = std::array<Value, kMaxOperands>;

// An operation on elements. Its value's index is its own plus the number of
// slots that hold something at the beginning.
struct Operation {
  Opcode opcode;
  Operands operands;
  Position at;
};

constexpr int kNumInputs = expression::kFirstTemporarySlot;

// Puts the values of operations into slots. Outputs go straight to their slot
// where nothing reads its old content any more.
class SlotAllocator {
 public:
  struct Output {
    uint8_t slot;
    Value value;
  };

  // `end`: where the program ends.
  SlotAllocator(const std::vector<Operation>& operations,
                std::vector<Output> outputs, Position end)
      : operations_(operations), outputs_(std::move(outputs)), end_(end) {}

  absl::Status Run() {
    FindLastUses();
    for (int i = 0; i < num_operations(); ++i) {
      if (last_use_[kNumInputs + i] == kNever) continue;
      RETURN_IF_ERROR(Place(i));
    }
    return MoveOutputs();
  }

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<uint16_t>& scalars() const { return scalars_; }

 private:
  static constexpr int kNever = -1;

  int num_operations() const { return static_cast<int>(operations_.size()); }

  // Finds them by value; outputs are used after the last operation.
  void FindLastUses() {
    last_use_.assign(kNumInputs + num_operations(), kNever);
    place_.assign(last_use_.size(), 0);
    for (int i = 0; i < kNumInputs; ++i) place_[i] = static_cast<uint8_t>(i);
    for (const Output& output : outputs_) Use(output.value, num_operations());
    for (int i = num_operations() - 1; i >= 0; --i) {
      if (last_use_[kNumInputs + i] == kNever) continue;
      for (const Value& operand : OperandsOf(i)) Use(operand, i);
    }
  }
  void Use(const Value& value, int at) {
    if (value.is_scalar) return;
    last_use_[value.index] = std::max(last_use_[value.index], at);
  }
  absl::Span<const Value> OperandsOf(int operation) const {
    const Operation& one = operations_[operation];
    return absl::MakeConstSpan(one.operands).first(NumOperands(one.opcode));
  }

  absl::Status Place(int i) {
    Instruction instruction = {.opcode = operations_[i].opcode};
    int operand = 0;
    for (const Value& value : OperandsOf(i)) {
      ASSIGN_OR_RETURN(instruction.operands[operand++],
                       PlaceOf(value, operations_[i].at));
      const bool is_last = !value.is_scalar && last_use_[value.index] == i;
      if (is_last) Release(place_[value.index]);
    }
    ASSIGN_OR_RETURN(instruction.out, SlotFor(i));
    place_[kNumInputs + i] = instruction.out;
    return Add(instruction, operations_[i].at);
  }

  absl::StatusOr<uint8_t> SlotFor(int i) {
    for (const Output& output : outputs_) {
      const bool is_free = last_use_[output.slot] <= i;
      if (output.value == Value{false, kNumInputs + i} && is_free) {
        return output.slot;
      }
    }
    return Temporary(operations_[i].at);
  }

  absl::StatusOr<uint8_t> Temporary(Position at) {
    const auto found = std::find(is_taken_.begin(), is_taken_.end(), false);
    if (found == is_taken_.end()) {
      return ErrorAt(at,
                     absl::StrCat("at most ", is_taken_.size(),
                                  " values that are still needed"),
                     "more");
    }
    *found = true;
    return expression::kFirstTemporarySlot + (found - is_taken_.begin());
  }
  void Release(uint8_t slot) {
    if (slot < expression::kFirstTemporarySlot) return;
    is_taken_[slot - expression::kFirstTemporarySlot] = false;
  }

  absl::StatusOr<uint8_t> PlaceOf(const Value& value, Position at) {
    if (!value.is_scalar) return place_[value.index];
    auto found = std::find(scalars_.begin(), scalars_.end(), value.index);
    if (found == scalars_.end()) {
      if (scalars_.size() == expression::kMaxScalars) {
        return ErrorAt(at,
                       absl::StrCat("at most ", expression::kMaxScalars,
                                    " numbers beside those of elements"),
                       "more");
      }
      found = scalars_.insert(found, static_cast<uint16_t>(value.index));
    }
    return expression::kFirstScalar + (found - scalars_.begin());
  }

  // What is not in its slot yet is moved there. First from slots that other
  // moves change, so that `a` and `b` can change places.
  absl::Status MoveOutputs() {
    std::vector<std::pair<uint8_t, uint8_t>> moves;  // to, from
    for (const Output& output : outputs_) {
      ASSIGN_OR_RETURN(uint8_t from, PlaceOf(output.value, end_));
      const bool is_there = from == output.slot && !IsStoredItself(output);
      if (is_there) continue;
      const bool may_change = from < kNumInputs && from != output.slot;
      if (may_change) {
        ASSIGN_OR_RETURN(const uint8_t temporary, Temporary(end_));
        RETURN_IF_ERROR(AddMove(temporary, from));
        from = temporary;
      }
      moves.push_back({output.slot, from});
    }
    for (const auto& [to, from] : moves) RETURN_IF_ERROR(AddMove(to, from));
    return absl::OkStatus();
  }

  // The stored value may lie elsewhere than the new one.
  static bool IsStoredItself(const Output& output) {
    return output.slot == expression::kStoredSlot &&
           output.value == Value{false, expression::kStoredSlot};
  }

  absl::Status AddMove(uint8_t to, uint8_t from) {
    return Add({.opcode = Opcode::kMove, .out = to, .operands = {from}}, end_);
  }
  absl::Status Add(const Instruction& instruction, Position at) {
    if (instructions_.size() == kMaxInstructions) {
      return ErrorAt(at,
                     absl::StrCat("at most ", kMaxInstructions, " operations"),
                     "more");
    }
    instructions_.push_back(instruction);
    return absl::OkStatus();
  }

  const std::vector<Operation>& operations_;
  const std::vector<Output> outputs_;
  const Position end_;
  std::vector<int> last_use_;
  std::vector<uint8_t> place_;
  std::array<bool, expression::kMaxTemporaries> is_taken_ = {};
  std::vector<uint16_t> scalars_;
  std::vector<Instruction> instructions_;
};

}  // namespace

// Finds what the names and operations of a program mean.
class ExpressionCompiler {
 public:
  explicit ExpressionCompiler(absl::Span<const std::string> hyperparameters)
      : hyperparameters_(hyperparameters) {}

  absl::StatusOr<Expression> Run(const ParsedProgram& program) {
    RETURN_IF_ERROR(DefineGiven());
    RETURN_IF_ERROR(DefineStates(program));
    int first_node = 0;
    for (const Assignment& assignment : program.assignments) {
      RETURN_IF_ERROR(Assign(program, first_node, assignment));
      first_node = assignment.end_node;
    }
    RETURN_IF_ERROR(CheckAssigned(program));
    RETURN_IF_ERROR(CheckHyperparametersUsed());
    return Finish(program);
  }

 private:
  using Scalar = Expression::Scalar;

  static Value Element(int index) { return {false, index}; }

  absl::Status DefineGiven() {
    values_[kStored] = Element(expression::kStoredSlot);
    values_[kGrad] = Element(expression::kGradSlot);
    values_[kStep] = AddScalar({.kind = Scalar::Kind::kUpdateCount});
    if (hyperparameters_.size() > kMaxExpressionHyperparameters) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expression: expected at most ", kMaxExpressionHyperparameters,
          " hyperparameters, got ", hyperparameters_.size()));
    }
    for (size_t i = 0; i < hyperparameters_.size(); ++i) {
      const absl::string_view name = hyperparameters_[i];
      if (IsGiven(name) || expression::IsReserved(name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "expression: expected hyperparameters of names that have no other "
            "meaning, got ",
            Quoted(name)));
      }
      values_[name] = AddScalar({.kind = Scalar::Kind::kHyperparameter,
                                 .operands = {static_cast<uint16_t>(i)}});
    }
    return absl::OkStatus();
  }

  absl::Status DefineStates(const ParsedProgram& program) {
    if (program.states.size() > expression::kMaxStates) {
      return ErrorAt(
          program.states[expression::kMaxStates].at,
          absl::StrCat("at most ", expression::kMaxStates, " states"),
          absl::StrCat(program.states.size()));
    }
    int slot = expression::kFirstStateSlot;
    for (const auto& [name, at] : program.states) {
      const bool is_new = values_.try_emplace(name, Element(slot++)).second;
      if (!is_new || name == kInput) {
        return ErrorAt(at, "a state of a name that has no other meaning",
                       Quoted(name));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Assign(const ParsedProgram& program, int first_node,
                      const Assignment& assignment) {
    const absl::string_view name = Canonical(assignment.name);
    if (name == kStep || IsHyperparameter(name)) {
      return ErrorAt(assignment.at,
                     "stored, grad, a state or a name of the expression's own",
                     absl::StrCat(Quoted(assignment.name),
                                  ", which an update cannot change"));
    }
    std::vector<Value> values;  // of the assignment's nodes
    for (int i = first_node; i < assignment.end_node; ++i) {
      ASSIGN_OR_RETURN(const Value value,
                       ValueOf(program.nodes[i], first_node, values));
      values.push_back(value);
    }
    values_[name] = values.back();
    is_assigned_[name] = true;
    return absl::OkStatus();
  }

  absl::StatusOr<Value> ValueOf(const Node& node, int first_node,
                                absl::Span<const Value> values) {
    switch (node.kind) {
      case Node::Kind::kNumber:
        return AddScalar(
            {.kind = Scalar::Kind::kConstant, .constant = node.number});
      case Node::Kind::kName:
        return ValueOfName(node);
      case Node::Kind::kOperation:
        break;
    }
    Operands operands = {};
    bool is_scalar = true;
    for (int k = 0; k < NumOperands(node.opcode); ++k) {
      operands[k] = values[node.operands[k] - first_node];
      is_scalar = is_scalar && operands[k].is_scalar;
    }
    return is_scalar ? AddScalarOperation(node, operands)
                     : AddOperation(node, operands);
  }

  absl::StatusOr<Value> ValueOfName(const Node& node) {
    const auto found = values_.find(Canonical(node.name));
    if (found == values_.end()) {
      return ErrorAt(node.at,
                     "stored, grad, step, a hyperparameter that the rule sets, "
                     "a state that is declared, or a name assigned before",
                     Quoted(node.name));
    }
    is_read_[found->first] = true;
    return found->second;
  }

  // Equal operations on equal values are one value.
  absl::StatusOr<Value> AddOperation(const Node& node,
                                     const Operands& operands) {
    const auto [found, is_new] = known_operations_.try_emplace(
        {node.opcode, operands},
        Element(kNumInputs + static_cast<int>(operations_.size())));
    if (!is_new) return found->second;
    RETURN_IF_ERROR(CheckCount(operations_.size(), node.at));
    operations_.push_back({node.opcode, operands, node.at});
    return found->second;
  }

  absl::StatusOr<Value> AddScalarOperation(const Node& node,
                                           const Operands& operands) {
    const auto [found, is_new] = known_operations_.try_emplace(
        {node.opcode, operands},
        Value{true, static_cast<int>(scalars_.size())});
    if (!is_new) return found->second;
    RETURN_IF_ERROR(CheckCount(num_scalar_operations_++, node.at));
    Scalar scalar = {.kind = Scalar::Kind::kOperation, .opcode = node.opcode};
    for (int k = 0; k < NumOperands(node.opcode); ++k) {
      scalar.operands[k] = static_cast<uint16_t>(operands[k].index);
    }
    return AddScalar(scalar);
  }

  Value AddScalar(const Scalar& scalar) {
    if (scalar.kind == Scalar::Kind::kConstant) {
      const auto [found, is_new] = known_constants_.try_emplace(
          scalar.constant, static_cast<int>(scalars_.size()));
      if (!is_new) return {true, found->second};
    }
    scalars_.push_back(scalar);
    return {true, static_cast<int>(scalars_.size()) - 1};
  }

  static absl::Status CheckCount(size_t count, Position at) {
    if (count < kMaxInstructions) return absl::OkStatus();
    return ErrorAt(
        at, absl::StrCat("at most ", kMaxInstructions, " operations"), "more");
  }

  absl::Status CheckAssigned(const ParsedProgram& program) const {
    if (!is_assigned_.contains(kStored)) {
      return ErrorAt(program.end, "an assignment to stored before the end",
                     "none");
    }
    for (const auto& [name, at] : program.states) {
      if (is_assigned_.contains(name)) continue;
      return ErrorAt(at, "a state that the expression assigns", Quoted(name));
    }
    return absl::OkStatus();
  }

  absl::Status CheckHyperparametersUsed() const {
    for (const std::string& name : hyperparameters_) {
      if (is_read_.contains(name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("expression: expected hyperparameters that the "
                       "expression reads, got ",
                       Quoted(name)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Expression> Finish(const ParsedProgram& program) {
    std::vector<SlotAllocator::Output> outputs = {
        {expression::kStoredSlot, values_[kStored]}};
    Expression compiled;
    uint8_t slot = expression::kFirstStateSlot;
    for (const auto& state : program.states) {
      outputs.push_back({slot++, values_[state.name]});
      compiled.states_.emplace_back(state.name);
    }
    SlotAllocator allocator(operations_, std::move(outputs), program.end);
    RETURN_IF_ERROR(allocator.Run());
    compiled.instructions_ = allocator.instructions();
    KeepNeeded(allocator.scalars(), compiled);
    return compiled;
  }

  // Leaves out the scalars that no instruction needs, directly or not.
  void KeepNeeded(const std::vector<uint16_t>& bound,
                  Expression& compiled) const {
    std::vector<bool> is_needed(scalars_.size());
    for (const uint16_t index : bound) is_needed[index] = true;
    for (size_t i = scalars_.size(); i-- > 0;) {
      if (!is_needed[i]) continue;
      for (const uint16_t index : OperandsOf(scalars_[i])) {
        is_needed[index] = true;
      }
    }
    std::vector<uint16_t> place(scalars_.size());
    for (size_t i = 0; i < scalars_.size(); ++i) {
      if (!is_needed[i]) continue;
      place[i] = static_cast<uint16_t>(compiled.scalars_.size());
      Scalar& scalar = compiled.scalars_.emplace_back(scalars_[i]);
      const size_t num_operands = OperandsOf(scalar).size();
      for (size_t k = 0; k < num_operands; ++k) {
        scalar.operands[k] = place[scalar.operands[k]];
      }
    }
    for (const uint16_t index : bound) {
      compiled.bound_scalars_.push_back(place[index]);
    }
  }

  static absl::Span<const uint16_t> OperandsOf(const Scalar& scalar) {
    const bool is_operation = scalar.kind == Scalar::Kind::kOperation;
    return absl::MakeConstSpan(scalar.operands,
                               is_operation ? NumOperands(scalar.opcode) : 0);
  }

  static absl::string_view Canonical(absl::string_view name) {
    return name == kInput ? kGrad : name;
  }
  bool IsHyperparameter(absl::string_view name) const {
    return std::find(hyperparameters_.begin(), hyperparameters_.end(), name) !=
           hyperparameters_.end();
  }

  const absl::Span<const std::string> hyperparameters_;
  // What names stand for at present, and what has become of them.
  absl::flat_hash_map<absl::string_view, Value> values_;
  absl::flat_hash_map<absl::string_view, bool> is_assigned_;
  absl::flat_hash_map<absl::string_view, bool> is_read_;
  std::vector<Operation> operations_;
  std::vector<Scalar> scalars_;
  size_t num_scalar_operations_ = 0;
  std::map<std::pair<Opcode, Operands>, Value> known_operations_;
  std::map<double, int> known_constants_;
};

absl::StatusOr<Expression> Expression::Compile(
    absl::string_view text, absl::Span<const std::string> hyperparameters) {
  ASSIGN_OR_RETURN(const ParsedProgram program, expression::Parse(text));
  return ExpressionCompiler(hyperparameters).Run(program);
}

}  // namespace tensorkv
