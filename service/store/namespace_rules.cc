#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"
#include "service/store/namespace.h"

namespace tensorkv {
namespace {

// What a pattern takes besides its text.
constexpr uint64_t kPatternOverheadBytes = 512;

// How often a change of rules looks for keys that have come meanwhile.
constexpr int kMaxBindTurns = 4;

// Whether the state tensors of `key` mean the same under `rule`.
bool CanKeepStates(const StoredKey& key, const UpdateRule& rule) {
  return key.rule_state && key.rule != nullptr &&
         key.rule->spec().name == rule.spec().name &&
         key.rule_state->states.size() ==
             static_cast<size_t>(rule.num_states());
}

absl::Status NoRuleOf(absl::string_view pattern) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("key pattern ", Quoted(pattern),
                                       ": no rule is bound to it")),
      Reason::kRuleNotFound, {{"key_pattern", pattern}});
}

}  // namespace

absl::Status Namespace::SetRule(const SetRuleRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create(request.rule));
  MutexLock lock(&rules_mutex_);
  return Bind(request.key_pattern,
              std::make_shared<const UpdateRule>(std::move(rule)));
}

absl::Status Namespace::UnsetRule(const UnsetRuleRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  if (request.key_pattern.empty()) {
    return absl::InvalidArgumentError(
        "key_pattern: expected one, got none: the default rule can be changed, "
        "not removed");
  }
  MutexLock lock(&rules_mutex_);
  if (bindings()->Get(request.key_pattern) == nullptr) {
    return NoRuleOf(request.key_pattern);
  }
  return Bind(request.key_pattern, nullptr);
}

absl::StatusOr<RuleSpec> Namespace::SetHyperparameters(
    const SetHyperparametersRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  MutexLock lock(&rules_mutex_);
  const SharedRule present = bindings()->Get(request.key_pattern);
  if (present == nullptr) return NoRuleOf(request.key_pattern);
  ASSIGN_OR_RETURN(UpdateRule rule, present->With(request.hyperparameters));
  RETURN_IF_ERROR(
      Bind(request.key_pattern, std::make_shared<const UpdateRule>(rule)));
  return rule.spec();
}

std::shared_ptr<const RuleBindings> Namespace::bindings() const {
  MutexLock lock(&mutex_);
  return bindings_;
}

// Prepares every key's new state before it changes the first key, so that a
// failure changes nothing. Not under the mutex, as a device may take its time
// to find memory; for keys that come meanwhile there are more turns, of which
// the last lets no more come.
absl::Status Namespace::Bind(absl::string_view pattern, SharedRule rule) {
  const std::shared_ptr<const RuleBindings> before = bindings();
  auto changed = std::make_shared<RuleBindings>(*before);
  if (rule == nullptr) {
    changed->Remove(pattern);
  } else {
    RETURN_IF_ERROR(changed->Set(pattern, rule));
  }
  const auto rule_of = [&](const StoredKey& key) -> const SharedRule& {
    return rule != nullptr ? rule : changed->Find(key.name());
  };
  const SharedRule present = before->Get(pattern);
  if (present == nullptr) {
    ASSIGN_OR_RETURN(
        Reservation overhead,
        Reservation::Create(memory_.metadata(),
                            kPatternOverheadBytes + pattern.size()));
    changed->Charge(pattern, std::move(overhead));
  }
  NewStates states;  // what goes, goes without the mutex
  for (int turn = 1; turn < kMaxBindTurns; ++turn) {
    std::vector<KeyPtr> governed;
    {
      MutexLock lock(&mutex_);
      governed = GovernedKeys(pattern, present.get());
    }
    const size_t num_before = states.size();
    RETURN_IF_ERROR(AddStates(governed, rule_of, states));
    if (states.size() == num_before) break;
  }
  std::vector<KeyPtr> governed;
  MutexLock lock(&mutex_);
  governed = GovernedKeys(pattern, present.get());
  RETURN_IF_ERROR(AddStates(governed, rule_of, states));
  for (const KeyPtr& key : governed) {
    SetRuleOf(*key, rule_of(*key), states[key.get()].state);
  }
  bindings_ = std::move(changed);
  ++revision_;
  return absl::OkStatus();
}

absl::Status Namespace::AddStates(absl::Span<const KeyPtr> keys,
                                  RuleOfKey rule_of, NewStates& states) {
  for (const KeyPtr& key : keys) {
    if (states.contains(key.get())) continue;
    const UpdateRule& rule = *rule_of(*key);
    RETURN_IF_ERROR(CheckRule(key->name(), key->dtype(), rule));
    ASSIGN_OR_RETURN(RefPtr<RuleState> state, MakeState(*key, rule));
    states[key.get()] = {key, std::move(state)};
  }
  return absl::OkStatus();
}

// A pattern that has a rule governs the keys that have this rule; a new one
// comes first, so that it governs all that match.
std::vector<Namespace::KeyPtr> Namespace::GovernedKeys(
    absl::string_view pattern, const UpdateRule* present) const {
  std::vector<KeyPtr> governed;
  keys_.ForEach([&](StoredKey& key) {
    const bool is_governed = present != nullptr
                                 ? key.rule.get() == present
                                 : MatchesGlob(pattern, key.name());
    if (is_governed) governed.emplace_back(&key);
  });
  return governed;
}

// `state` takes the place of the present one, and the other way round. What it
// has of that may have been filled since.
void Namespace::SetRuleOf(StoredKey& key, const SharedRule& rule,
                          RefPtr<RuleState>& state) {
  if (state && key.rule_state) {
    const RuleState& present = *key.rule_state;
    if (state->states == present.states) {
      state->states_are_new = present.states_are_new;
    }
    if (state->master == present.master) {
      state->master_is_new = present.master_is_new;
    }
  }
  if (key.rule->spec().name != rule->spec().name) key.update_count = 0;
  key.rule = rule;
  std::swap(key.rule_state, state);
}

// The state that `key` has under `rule`: what it keeps of its present state, of
// which SetRuleOf knows whether it is filled, and new tensors, to be filled by
// its next update.
absl::StatusOr<RefPtr<RuleState>> Namespace::MakeState(const StoredKey& key,
                                                       const UpdateRule& rule) {
  const size_t num_states = rule.num_states();
  const bool keeps_master = rule.keeps_master(key.dtype());
  if (num_states == 0 && !keeps_master) return nullptr;

  const RuleState* present = key.rule_state.get();
  const bool keeps_states = CanKeepStates(key, rule);
  const bool has_master = present != nullptr && present->master;
  if (keeps_states && has_master == keeps_master) return key.rule_state;

  auto state = MakeRefCounted<RuleState>();
  if (keeps_states) {
    state->states = present->states;
  } else {
    state->states_are_new = num_states > 0;
    for (size_t i = 0; i < num_states; ++i) {
      ASSIGN_OR_RETURN(state->states.emplace_back(),
                       AllocateState(key, AccumulateType(key.dtype())));
    }
  }
  if (keeps_master && has_master) {
    state->master = present->master;
  } else if (keeps_master) {
    state->master_is_new = true;
    ASSIGN_OR_RETURN(state->master, AllocateState(key, DType::kF32));
  }
  return state;
}

absl::StatusOr<RefPtr<Buffer>> Namespace::AllocateState(const StoredKey& key,
                                                        DType dtype) {
  return AllocateFor(key, memory_.on(key.device).state,
                     key.num_elements() * SizeOf(dtype));
}

}  // namespace tensorkv
