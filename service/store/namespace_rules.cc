#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"
#include "service/store/namespace.h"

namespace tensorkv {

absl::Status Namespace::SetRule(const SetRuleRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create(request.rule));
  MutexLock lock(&mutex_);
  RuleBindings changed = bindings_;
  RETURN_IF_ERROR(changed.Set(request.key_pattern,
                              std::make_shared<const UpdateRule>(rule)));
  return Rebind(std::move(changed));
}

absl::StatusOr<RuleSpec> Namespace::SetHyperparameters(
    const SetHyperparametersRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  MutexLock lock(&mutex_);
  const SharedRule present = bindings_.Get(request.key_pattern);
  if (present == nullptr) {
    return absl::NotFoundError(absl::StrCat("key pattern ",
                                            Quoted(request.key_pattern),
                                            ": no rule is bound to it"));
  }
  ASSIGN_OR_RETURN(UpdateRule rule, present->With(request.hyperparameters));
  RuleBindings changed = bindings_;
  RETURN_IF_ERROR(changed.Set(request.key_pattern,
                              std::make_shared<const UpdateRule>(rule)));
  RETURN_IF_ERROR(Rebind(std::move(changed)));
  return rule.spec();
}

// Prepares every key's new state before it changes the first key, so that a
// failure changes nothing.
absl::Status Namespace::Rebind(RuleBindings bindings) {
  struct Change {
    StoredKey* key;
    SharedRule rule;
    std::shared_ptr<RuleState> state;
  };
  std::vector<Change> changes;
  absl::Status status;
  keys_.ForEach([&](StoredKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const SharedRule& rule = bindings.Find(key.name);
    if (!status.ok() || rule == key.rule) return;
    if (status = rule->CheckTakes(key.dtype); !status.ok()) {
      status = absl::InvalidArgumentError(
          absl::StrCat("key ", Quoted(key.name), ": ", status.message()));
      return;
    }
    absl::StatusOr<std::shared_ptr<RuleState>> state = MakeState(key, *rule);
    status = state.status();
    if (status.ok()) changes.push_back({&key, rule, *std::move(state)});
  });
  RETURN_IF_ERROR(status);
  for (Change& change : changes) {
    StoredKey& key = *change.key;
    if (key.rule->spec().name != change.rule->spec().name) key.update_count = 0;
    key.rule = std::move(change.rule);
    key.rule_state = std::move(change.state);
  }
  bindings_ = std::move(bindings);
  return absl::OkStatus();
}

// The state that `key` has under `rule`: what it keeps of its present state,
// and new tensors, to be filled by its next update.
absl::StatusOr<std::shared_ptr<RuleState>> Namespace::MakeState(
    const StoredKey& key, const UpdateRule& rule) {
  const size_t num_states = rule.num_states();
  const bool keeps_master = rule.keeps_master(key.dtype);
  if (num_states == 0 && !keeps_master) return nullptr;

  const RuleState* present = key.rule_state.get();
  const bool keeps_states = present != nullptr && key.rule != nullptr &&
                            key.rule->spec().name == rule.spec().name &&
                            present->states.size() == num_states;
  const bool has_master = present != nullptr && present->master;
  if (keeps_states && has_master == keeps_master) return key.rule_state;

  auto state = std::make_shared<RuleState>();
  const auto allocate = [&](DType dtype) -> absl::StatusOr<RefPtr<Buffer>> {
    ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(dtype, key.shape));
    ASSIGN_OR_RETURN(Reservation room, Reservation::Create(state_, bytes));
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                     environment_.backend->Allocate(bytes, state_));
    room.HandOver();
    return buffer;
  };
  if (keeps_states) {
    state->states = present->states;
    state->states_are_new = present->states_are_new;
  } else {
    state->states_are_new = num_states > 0;
    for (size_t i = 0; i < num_states; ++i) {
      ASSIGN_OR_RETURN(state->states.emplace_back(),
                       allocate(AccumulateType(key.dtype)));
    }
  }
  if (keeps_master && has_master) {
    state->master = present->master;
    state->master_is_new = present->master_is_new;
  } else if (keeps_master) {
    state->master_is_new = true;
    ASSIGN_OR_RETURN(state->master, allocate(DType::kF32));
  }
  return state;
}

}  // namespace tensorkv
