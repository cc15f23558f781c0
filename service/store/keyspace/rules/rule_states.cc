#include "service/store/keyspace/rules/rule_states.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/slices.h"
#include "service/store/counted_buffer.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Returns whether the state tensors of `key` mean the same under `rule`.
bool CanKeepStates(const StoredKey& key, const UpdateRule& rule) {
  return key.rule_state && key.rule != nullptr && rule.Continues(*key.rule) &&
         key.rule->states() == rule.states();
}

// Returns how many bytes a state takes of a value of that dtype and shape.
uint64_t BytesOfState(const StateSpec& spec, DType dtype, const Shape& shape) {
  return spec.ShapeFor(shape).num_elements() *
         SizeOf(StateSpec::DTypeFor(dtype));
}

absl::StatusOr<RefPtr<Buffer>> AllocateState(const NamespaceState& state,
                                             uint64_t bytes) {
  return AllocateCounted(state.memory.device().state, bytes, state.device());
}

absl::Status AddNewStates(const NamespaceState& of, const StoredKey& key,
                          const UpdateRule& rule, RuleState& state) {
  state.states_are_new = rule.num_states() > 0;
  for (const StateSpec& spec : rule.states()) {
    ASSIGN_OR_RETURN(
        state.states.emplace_back(),
        AllocateState(of, BytesOfState(spec, key.dtype(), key.shape())));
  }
  return absl::OkStatus();
}

// Adds the master that the key has already, or a new one.
absl::Status AddMaster(const NamespaceState& of, const StoredKey& key,
                       RuleState& state) {
  if (key.rule_state && key.rule_state->master) {
    state.master = key.rule_state->master;
    return absl::OkStatus();
  }
  state.master_is_new = true;
  ASSIGN_OR_RETURN(state.master,
                   AllocateState(of, key.num_elements() * SizeOf(DType::kF32)));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRule(absl::string_view key, DType dtype,
                       const UpdateRule& rule) {
  absl::Status status = rule.CheckTakes(dtype);
  if (status.ok() && rule.takes_sums() && ParseSliceName(key)) {
    status = absl::InvalidArgumentError(
        absl::StrCat(rule.spec().name, ": expected whole keys, got a slice"));
  }
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("key ", Quoted(key), ": ", status.message()));
}

uint64_t TextBytes(const UpdateRule& rule) {
  constexpr uint64_t kBytesPerCharacter = 16;
  // The specification has them, and so has the schedule.
  constexpr uint64_t kBytesPerStep = 2 * sizeof(uint64_t);
  return rule.spec().expression.size() * kBytesPerCharacter +
         rule.spec().schedule.steps.size() * kBytesPerStep;
}

uint64_t StateBytesOf(const Tensor& tensor, const UpdateRule& rule) {
  uint64_t bytes = 0;
  for (const StateSpec& spec : rule.states()) {
    bytes =
        SumOfBytes(bytes, BytesOfState(spec, tensor.dtype(), tensor.shape()));
  }
  if (rule.keeps_master(tensor.dtype())) {
    bytes = SumOfBytes(bytes, tensor.num_elements() * SizeOf(DType::kF32));
  }
  return bytes;
}

// Returns the state that `key` has under `rule`: what it keeps of its present
// state, of which SetRuleOf knows whether it is filled, and new tensors, to be
// filled by its next update.
absl::StatusOr<RefPtr<RuleState>> MakeState(const NamespaceState& of,
                                            const StoredKey& key,
                                            const UpdateRule& rule) {
  const bool keeps_master = rule.keeps_master(key.dtype());
  if (rule.num_states() == 0 && !keeps_master) return nullptr;

  const RuleState* present = key.rule_state.get();
  const bool keeps_states = CanKeepStates(key, rule);
  const bool has_master = present != nullptr && present->master;
  if (keeps_states && has_master == keeps_master) return key.rule_state;

  auto state = MakeRefCounted<RuleState>();
  if (keeps_states) {
    state->states = present->states;
  } else {
    RETURN_IF_ERROR(AddNewStates(of, key, rule, *state));
  }
  if (keeps_master) RETURN_IF_ERROR(AddMaster(of, key, *state));
  return state;
}

}  // namespace tensorkv
