#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// What a pattern takes besides its text.
constexpr uint64_t kPatternOverheadBytes = 512;

// How many keys one turn of the mutex is for.
constexpr size_t kKeysPerTurn = 1024;

// How often a change of rules looks for keys that have come meanwhile before it
// lets no more come.
constexpr int kMaxTurnsForNewKeys = 16;

// Whether the state tensors of `key` mean the same under `rule`.
bool CanKeepStates(const StoredKey& key, const UpdateRule& rule) {
  return key.rule_state && key.rule != nullptr &&
         key.rule->spec().name == rule.spec().name &&
         key.rule->states() == rule.states();
}

absl::Status NothingBoundTo(absl::string_view pattern, absl::string_view what) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("key pattern ", Quoted(pattern), ": ",
                                       what, " bound to it")),
      Reason::kRuleNotFound, {{"key_pattern", pattern}});
}

absl::Status NoRuleOf(absl::string_view pattern) {
  return NothingBoundTo(pattern, "no rule is");
}

absl::Status CheckMultipliers(const Multipliers& multipliers) {
  for (const double number :
       {multipliers.learning_rate, multipliers.weight_decay}) {
    if (std::isfinite(number) && number >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "multipliers: expected finite numbers >= 0, got ", number));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Namespace::SetRule(const SetRuleRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  if (request.rule.has_value() == request.multipliers.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a rule or multipliers, got ",
                     request.rule ? "both" : "none"));
  }
  if (request.multipliers) {
    RETURN_IF_ERROR(CheckMultipliers(*request.multipliers));
    MutexLock lock(&rules_mutex_);
    return BindMultipliers(
        request.key_pattern,
        MakeRefCounted<BoundMultipliers>(*request.multipliers));
  }
  ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create(*request.rule));
  MutexLock lock(&rules_mutex_);
  return Bind(request.key_pattern, MakeRefCounted<BoundRule>(std::move(rule)));
}

absl::Status Namespace::UnsetRule(const UnsetRuleRequest& request) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern));
  if (request.multipliers) {
    MutexLock lock(&rules_mutex_);
    if (!bindings()->multipliers.Get(request.key_pattern)) {
      return NothingBoundTo(request.key_pattern, "no multipliers are");
    }
    return BindMultipliers(request.key_pattern, nullptr);
  }
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
  RETURN_IF_ERROR(Bind(request.key_pattern, MakeRefCounted<BoundRule>(rule)));
  return rule.spec();
}

std::shared_ptr<const RuleBindings> Namespace::bindings() const {
  MutexLock lock(&mutex_);
  return bindings_;
}

// New keys have them as soon as the bindings have changed, the others follow in
// short turns: an update that runs meanwhile may find the old ones.
absl::Status Namespace::BindMultipliers(absl::string_view pattern,
                                        SharedMultipliers multipliers) {
  auto changed = std::make_shared<RuleBindings>(*bindings());
  if (!multipliers && !pattern.empty()) {
    changed->multipliers.Remove(pattern);
  } else {
    const bool is_new = !pattern.empty() && !changed->multipliers.Get(pattern);
    RETURN_IF_ERROR(changed->multipliers.Set(pattern, std::move(multipliers)));
    if (is_new) {
      ASSIGN_OR_RETURN(
          Reservation overhead,
          Reservation::Create(memory_.metadata(),
                              kPatternOverheadBytes + pattern.size()));
      changed->multipliers.Charge(pattern, std::move(overhead));
    }
  }
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(no_waits_);
    bindings_ = changed;
    ++revision_;
  }
  std::vector<KeyPtr> keys;
  for (std::string last;; last = std::string(keys.back()->name())) {
    keys = KeysAfter(last);
    if (keys.empty()) return absl::OkStatus();
    std::vector<absl::string_view> names;
    for (const KeyPtr& key : keys) names.push_back(key->name());
    ASSIGN_OR_RETURN(
        const std::vector<const SharedMultipliers*> found,
        changed->multipliers.Find(names, [] { return absl::OkStatus(); }));
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < keys.size(); ++i) keys[i]->multipliers = *found[i];
  }
}

std::vector<Namespace::KeyPtr> Namespace::KeysAfter(
    const std::string& last) const {
  std::vector<KeyPtr> keys;
  MutexLock lock(&mutex_);
  for (StoredKey* key : keys_.List("", last, kKeysPerTurn)) {
    keys.emplace_back(key);
  }
  return keys;
}

// Prepares every key's new state before it changes the first key, so that a
// failure changes nothing. Patterns are matched, and memory is allocated,
// without the mutex; the keys are read and changed in short turns. So an update
// that runs meanwhile may have the old rule at some keys and the new one at
// others.
absl::Status Namespace::Bind(absl::string_view pattern, SharedRule rule) {
  const std::shared_ptr<const RuleBindings> before = bindings();
  auto changed = std::make_shared<RuleBindings>(*before);
  if (rule == nullptr) {
    changed->Remove(pattern);
  } else {
    RETURN_IF_ERROR(changed->Set(pattern, rule));
  }
  const SharedRule present = before->Get(pattern);
  if (present == nullptr) {
    ASSIGN_OR_RETURN(
        Reservation overhead,
        Reservation::Create(memory_.metadata(),
                            kPatternOverheadBytes + pattern.size()));
    changed->Charge(pattern, std::move(overhead));
  }
  RuleChange change = {.rule = std::move(rule),
                       .present = present.get(),
                       .glob = Glob(pattern),
                       .bindings = std::move(changed)};
  absl::Status status = PrepareKeys(change);
  if (status.ok()) status = PrepareNewKeys(change);
  {
    MutexLock lock(&mutex_);
    keys_made_.reset();
  }
  RETURN_IF_ERROR(status);
  auto next = change.states.begin();
  while (next != change.states.end()) {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < kKeysPerTurn && next != change.states.end(); ++i) {
      NewState& state = next->second;
      SetRuleOf(*state.key, state.rule, state.state);
      ++next;
    }
  }
  return absl::OkStatus();
}

absl::Status Namespace::PrepareKeys(RuleChange& change) {
  std::string last;
  {
    MutexLock lock(&mutex_);
    keys_made_.emplace();
  }
  for (;;) {
    std::vector<KeyPtr> keys;
    {
      MutexLock lock(&mutex_);
      RETURN_IF_ERROR(no_waits_);
      for (StoredKey* key : keys_.List("", last, kKeysPerTurn)) {
        keys.emplace_back(key);
      }
    }
    if (keys.empty()) return absl::OkStatus();
    last = std::string(keys.back()->name());
    RETURN_IF_ERROR(AddStates(keys, change));
  }
}

absl::Status Namespace::PrepareNewKeys(RuleChange& change) {
  std::vector<KeyPtr> keys;
  for (int turn = 1;; ++turn) {
    {
      MutexLock lock(&mutex_);
      RETURN_IF_ERROR(no_waits_);
      keys = std::exchange(*keys_made_, {});
      if (keys.empty() || turn == kMaxTurnsForNewKeys) {
        RETURN_IF_ERROR(AddStates(keys, change));
        bindings_ = change.bindings;
        ++revision_;
        return absl::OkStatus();
      }
    }
    RETURN_IF_ERROR(AddStates(keys, change));
  }
}

absl::Status Namespace::AddStates(absl::Span<const KeyPtr> keys,
                                  RuleChange& change) {
  std::vector<KeyPtr> governed;
  std::vector<absl::string_view> names;
  for (const KeyPtr& key : keys) {
    // A pattern that has a rule governs the keys that have this rule; a new one
    // comes first, so that it governs all that match.
    const bool is_governed = change.present != nullptr
                                 ? key->rule.get() == change.present
                                 : change.glob.Matches(key->name());
    if (!is_governed || change.states.contains(key.get())) continue;
    governed.push_back(key);
    if (change.rule == nullptr) names.push_back(key->name());
  }
  ASSIGN_OR_RETURN(
      const std::vector<const SharedRule*> found,
      change.bindings->Find(names, [] { return absl::OkStatus(); }));
  for (size_t i = 0; i < governed.size(); ++i) {
    const KeyPtr& key = governed[i];
    const SharedRule& rule = change.rule != nullptr ? change.rule : *found[i];
    RETURN_IF_ERROR(CheckRule(key->name(), key->dtype(), *rule));
    ASSIGN_OR_RETURN(RefPtr<RuleState> state, MakeState(*key, *rule));
    change.states[key.get()] = {key, rule, std::move(state)};
  }
  return absl::OkStatus();
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
