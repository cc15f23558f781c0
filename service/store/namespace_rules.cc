#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"
#include "service/store/namespace.h"

namespace tensorkv {
namespace {

// What a pattern takes besides its text.
constexpr uint64_t kPatternOverheadBytes = 512;

}  // namespace

absl::Status Namespace::SetRule(const SetRuleRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create(request.rule));
  Replies replies;  // what goes, goes after the lock
  MutexLock lock(&mutex_);
  return Bind(request.key_pattern,
              std::make_shared<const UpdateRule>(std::move(rule)), replies);
}

absl::StatusOr<RuleSpec> Namespace::SetHyperparameters(
    const SetHyperparametersRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  Replies replies;
  MutexLock lock(&mutex_);
  const SharedRule present = bindings_->Get(request.key_pattern);
  if (present == nullptr) {
    return absl::NotFoundError(absl::StrCat("key pattern ",
                                            Quoted(request.key_pattern),
                                            ": no rule is bound to it"));
  }
  ASSIGN_OR_RETURN(UpdateRule rule, present->With(request.hyperparameters));
  RETURN_IF_ERROR(Bind(request.key_pattern,
                       std::make_shared<const UpdateRule>(rule), replies));
  return rule.spec();
}

// Prepares every key's new state before it changes the first key, so that a
// failure changes nothing.
//
// Under the mutex a device is asked for memory, which waits for no work of the
// device, but is a call of its driver where the pool must grow: the namespace
// stands still for that long. TODO(#5): allocate first, as Init does.
absl::Status Namespace::Bind(absl::string_view pattern, SharedRule rule,
                             Replies& replies) {
  auto changed = std::make_shared<RuleBindings>(*bindings_);
  RETURN_IF_ERROR(changed->Set(pattern, rule));
  // A pattern that has a rule governs the keys that have this rule; a new one
  // comes first, so that it governs all that match.
  const SharedRule present = bindings_->Get(pattern);
  if (present == nullptr) {
    ASSIGN_OR_RETURN(
        Reservation overhead,
        Reservation::Create(metadata_, kPatternOverheadBytes + pattern.size()));
    changed->Charge(pattern, std::move(overhead));
  }
  std::vector<std::pair<StoredKey*, RefPtr<RuleState>>> changes;
  absl::Status status;
  keys_.ForEach([&](StoredKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!status.ok()) return;
    const bool is_governed = present != nullptr
                                 ? key.rule == present
                                 : MatchesGlob(pattern, key.name());
    if (!is_governed) return;
    status = CheckRule(key.name(), key.dtype(), *rule);
    if (!status.ok()) return;
    absl::StatusOr<RefPtr<RuleState>> state = MakeState(key, *rule);
    status = state.status();
    if (status.ok()) changes.emplace_back(&key, *std::move(state));
  });
  RETURN_IF_ERROR(status);
  for (auto& [key, state] : changes) {
    if (key->rule->spec().name != rule->spec().name) key->update_count = 0;
    key->rule = rule;
    std::swap(key->rule_state, state);
    replies.removed_states.push_back(std::move(state));
  }
  bindings_ = std::move(changed);
  return absl::OkStatus();
}

// The state that `key` has under `rule`: what it keeps of its present state,
// and new tensors, to be filled by its next update.
absl::StatusOr<RefPtr<RuleState>> Namespace::MakeState(const StoredKey& key,
                                                       const UpdateRule& rule) {
  const size_t num_states = rule.num_states();
  const bool keeps_master = rule.keeps_master(key.dtype());
  if (num_states == 0 && !keeps_master) return nullptr;

  const RuleState* present = key.rule_state.get();
  const bool keeps_states = present != nullptr && key.rule != nullptr &&
                            key.rule->spec().name == rule.spec().name &&
                            present->states.size() == num_states;
  const bool has_master = present != nullptr && present->master;
  if (keeps_states && has_master == keeps_master) return key.rule_state;

  auto state = MakeRefCounted<RuleState>();
  const auto allocate = [&](DType dtype) -> absl::StatusOr<RefPtr<Buffer>> {
    ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(dtype, key.shape()));
    ASSIGN_OR_RETURN(Reservation room, Reservation::Create(state_, bytes));
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                     DeviceOf(key).Allocate(bytes, state_));
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
                       allocate(AccumulateType(key.dtype())));
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
