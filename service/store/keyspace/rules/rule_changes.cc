#include "service/store/keyspace/rules/rule_changes.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Counts what a pattern takes besides its text.
constexpr uint64_t kPatternOverheadBytes = 512;

// Bounds how often a change of rules looks for keys that have come meanwhile
// before it lets no more come.
constexpr int kMaxAttemptsForNewKeys = 16;

// Returns whether the state tensors of `key` mean the same under `rule`.
bool CanKeepStates(const StoredKey& key, const UpdateRule& rule) {
  return key.rule_state && key.rule != nullptr && rule.Continues(*key.rule) &&
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

// NewState is what a change of a rule has made for a key.
struct NewState {
  KeyPtr key;  // stays, so that its address is no other key's
  SharedRule rule;
  RefPtr<RuleState> state;
};

// Returns whether the key will have other states, or count its updates anew.
bool ChangesStates(const NewState& to) {
  const StoredKey& key = *to.key;
  return to.state != key.rule_state || !to.rule->Continues(*key.rule);
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

// `state` takes the place of the present one, and the other way round. What it
// has of that may have been filled since.
void SetRuleOf(StoredKey& key, const SharedRule& rule,
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
  if (!rule->Continues(*key.rule)) {
    key.ResetUpdateCount();
  } else if (state && key.rule_state) {
    state->total_weight = key.rule_state->total_weight;
  }
  key.rule = rule;
  std::swap(key.rule_state, state);
}

// Returns one locking's keys, those with names after `last`.
std::vector<KeyPtr> KeysAfter(NamespaceState& state, const std::string& last) {
  std::vector<KeyPtr> keys;
  MutexLock lock(&state.mutex);
  for (StoredKey* key : state.keys.List("", last, kKeysPerLock)) {
    keys.emplace_back(key);
  }
  return keys;
}

// A change of rules on its way.
//
// It prepares every key's new state before it changes the first key, so that a
// failure changes nothing. Patterns are matched, and memory is allocated,
// without the mutex; the keys are read and changed in short lockings. So an
// update that runs meanwhile may have the old rule at some keys and the new one
// at others. Used by one thread, which holds rules_lock.
class RuleChange {
 public:
  // Binds `rule` to `pattern`, and to the keys that follow from it. Null
  // unbinds the pattern, which has a rule: its keys fall to those that govern
  // them next.
  // `context`, of the call that wants it, outlives it: until the bindings have
  // changed, its caller may give it up.
  RuleChange(NamespaceState& state, const CallContext& context,
             absl::string_view pattern, SharedRule rule)
      : state_(state),
        context_(context),
        pattern_(pattern),
        rule_(std::move(rule)),
        glob_(pattern) {}

  absl::Status Run();

 private:
  // Makes bindings_.
  absl::Status Bind();
  // Makes the new states of all keys that the change is for.
  absl::Status PrepareKeys();
  // Makes those of the keys that have come since; then new keys have the rules
  // of the change.
  absl::Status PrepareNewKeys();
  // Makes the states of those keys that the change is for and that have none
  // yet. REQUIRES: the mutex is not held, as matching patterns takes time.
  absl::Status AddStates(absl::Span<const KeyPtr> keys);
  // Gives the keys their rules and states.
  void ChangeKeys();

  NamespaceState& state_;
  const CallContext& context_;
  const absl::string_view pattern_;
  // Null if the pattern is unbound: its keys get those of bindings_.
  const SharedRule rule_;
  // That of the same pattern before, if it had one.
  SharedRule present_;
  Glob glob_;
  // After the change.
  std::shared_ptr<const RuleBindings> bindings_;
  // They are destroyed without the mutex.
  absl::flat_hash_map<const StoredKey*, NewState> states_;
};

absl::Status RuleChange::Run() {
  RETURN_IF_ERROR(Bind());
  absl::Status status = PrepareKeys();
  if (status.ok()) status = PrepareNewKeys();
  {
    MutexLock lock(&state_.mutex);
    state_.keys_made.reset();
    state_.new_keys_wait = false;
  }
  if (status.ok()) ChangeKeys();
  return status;
}

absl::Status RuleChange::Bind() {
  const std::shared_ptr<const RuleBindings> before = state_.Bindings();
  present_ = before->Get(pattern_);
  auto changed = std::make_shared<RuleBindings>(*before);
  if (rule_ == nullptr) {
    changed->Remove(pattern_);
  } else {
    RETURN_IF_ERROR(changed->Set(pattern_, rule_));
  }
  bindings_ = changed;
  if (rule_ == nullptr) return absl::OkStatus();
  const uint64_t text_bytes = TextBytes(*rule_);
  if (present_ == nullptr || text_bytes != TextBytes(*present_)) {
    ASSIGN_OR_RETURN(Reservation overhead,
                     Reservation::Create(
                         state_.memory.metadata(),
                         kPatternOverheadBytes + pattern_.size() + text_bytes));
    changed->Charge(pattern_, std::move(overhead));
  }
  return absl::OkStatus();
}

void RuleChange::ChangeKeys() {
  auto next = states_.begin();
  while (next != states_.end()) {
    // This holds rules_lock, so that copies for a snapshot are made elsewhere.
    Transaction transaction(state_, Transaction::Thread::kAlarms);
    for (size_t i = 0; i < kKeysPerLock && next != states_.end(); ++i) {
      NewState& state = next->second;
      if (ChangesStates(state)) KeepBeforeRuleChange(transaction, *state.key);
      SetRuleOf(*state.key, state.rule, state.state);
      ++next;
    }
    transaction.MarkChanged();
  }
}

absl::Status RuleChange::PrepareKeys() {
  std::string last;
  {
    MutexLock lock(&state_.mutex);
    state_.keys_made.emplace();
  }
  for (;;) {
    RETURN_IF_ERROR(CheckIsWanted(state_, context_));
    const std::vector<KeyPtr> keys = KeysAfter(state_, last);
    if (keys.empty()) return absl::OkStatus();
    last = std::string(keys.back()->name());
    RETURN_IF_ERROR(AddStates(keys));
  }
}

absl::Status RuleChange::PrepareNewKeys() {
  std::vector<KeyPtr> keys;
  for (int attempt = 1;; ++attempt) {
    keys.clear();  // without the mutex
    {
      Transaction transaction(state_);
      RETURN_IF_ERROR(state_.end_of_waits);
      keys = std::exchange(*state_.keys_made, {});
      if (keys.empty()) {
        state_.bindings = bindings_;
        transaction.MarkChanged();
        return absl::OkStatus();
      }
      state_.new_keys_wait = attempt >= kMaxAttemptsForNewKeys;
    }
    RETURN_IF_ERROR(AddStates(keys));
  }
}

absl::Status RuleChange::AddStates(absl::Span<const KeyPtr> keys) {
  std::vector<KeyPtr> governed;
  std::vector<absl::string_view> names;
  for (const KeyPtr& key : keys) {
    // A pattern that has a rule governs the keys that have this rule; a new one
    // comes first, so that it governs all that match.
    const bool is_governed = present_ != nullptr
                                 ? key->rule == present_
                                 : glob_.Matches(WholeKeyOf(key->name()));
    if (!is_governed || states_.contains(key.get())) continue;
    governed.push_back(key);
    if (rule_ == nullptr) names.push_back(key->name());
  }
  ASSIGN_OR_RETURN(const std::vector<const SharedRule*> found,
                   bindings_->Find(names, [this] {
                     return CheckIsWanted(state_, context_);
                   }));
  for (size_t i = 0; i < governed.size(); ++i) {
    const KeyPtr& key = governed[i];
    const SharedRule& rule = rule_ != nullptr ? rule_ : *found[i];
    RETURN_IF_ERROR(CheckRule(key->name(), key->dtype(), *rule));
    ASSIGN_OR_RETURN(RefPtr<RuleState> state, MakeState(state_, *key, *rule));
    states_[key.get()] = {key, rule, std::move(state)};
  }
  return absl::OkStatus();
}

// Returns the bindings with other multipliers of `pattern`; null unbinds them.
absl::StatusOr<std::shared_ptr<const RuleBindings>> WithMultipliers(
    const NamespaceState& state, absl::string_view pattern,
    SharedMultipliers multipliers) {
  auto changed = std::make_shared<RuleBindings>(*state.Bindings());
  if (!multipliers && !pattern.empty()) {
    changed->multipliers.Remove(pattern);
    return changed;
  }
  const bool is_new = !pattern.empty() && !changed->multipliers.Get(pattern);
  RETURN_IF_ERROR(changed->multipliers.Set(pattern, std::move(multipliers)));
  if (is_new) {
    ASSIGN_OR_RETURN(
        Reservation overhead,
        Reservation::Create(state.memory.metadata(),
                            kPatternOverheadBytes + pattern.size()));
    changed->multipliers.Charge(pattern, std::move(overhead));
  }
  return changed;
}

// Returns the keys of `keys` that follow from a change of what is bound to
// `pattern`: those that have what it had, `before`, or if it had nothing, those
// that match.
std::vector<KeyPtr> Governed(std::vector<KeyPtr> keys,
                             absl::string_view pattern,
                             const SharedMultipliers& before) {
  Glob glob(pattern);
  const bool is_default = pattern.empty();
  std::erase_if(keys, [&](const KeyPtr& key) {
    return before || is_default ? key->multipliers != before
                                : !glob.Matches(WholeKeyOf(key->name()));
  });
  return keys;
}

// New keys have the multipliers as soon as the bindings have changed; the
// others follow in short lockings, so that an update that runs meanwhile may
// find the old ones. It goes on then though the caller may not: half of a
// change is none. REQUIRES: rules_lock is held.
absl::Status ChangeMultipliers(NamespaceState& state,
                               const CallContext& context,
                               absl::string_view pattern,
                               SharedMultipliers multipliers) {
  RETURN_IF_ERROR(CheckIsWanted(state, context));
  const SharedMultipliers before = state.Bindings()->multipliers.Get(pattern);
  ASSIGN_OR_RETURN(const std::shared_ptr<const RuleBindings> changed,
                   WithMultipliers(state, pattern, std::move(multipliers)));
  {
    Transaction transaction(state);
    RETURN_IF_ERROR(state.end_of_waits);
    state.bindings = changed;
    transaction.MarkChanged();
  }
  const auto go_on = [&state] { return CheckIsWanted(state, CallContext()); };
  for (std::string last;;) {
    RETURN_IF_ERROR(go_on());
    std::vector<KeyPtr> keys = KeysAfter(state, last);
    if (keys.empty()) return absl::OkStatus();
    last = std::string(keys.back()->name());
    keys = Governed(std::move(keys), pattern, before);
    if (keys.empty()) continue;
    std::vector<absl::string_view> names;
    for (const KeyPtr& key : keys) names.push_back(key->name());
    ASSIGN_OR_RETURN(const std::vector<const SharedMultipliers*> found,
                     changed->multipliers.Find(names, go_on));
    Transaction transaction(state);
    for (size_t i = 0; i < keys.size(); ++i) keys[i]->multipliers = *found[i];
    transaction.MarkChanged();
  }
}

// Returns the right to change rules, as long as it is held.
absl::StatusOr<LongLock::Holder> LockRules(NamespaceState& state,
                                           const CallContext& context) {
  return state.rules_lock.Acquire(context, *state.environment.alarms);
}

absl::Status Unset(NamespaceState& state, const UnsetRuleRequest& request,
                   const CallContext& context) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern()));
  if (request.key_pattern().empty()) {
    return absl::InvalidArgumentError(
        "key_pattern: expected one, got none: the default rule can be changed, "
        "not removed");
  }
  ASSIGN_OR_RETURN(const LongLock::Holder lock, LockRules(state, context));
  if (state.Bindings()->Get(request.key_pattern()) == nullptr) {
    return NoRuleOf(request.key_pattern());
  }
  return RuleChange(state, context, request.key_pattern(), nullptr).Run();
}

absl::Status Unset(NamespaceState& state,
                   const UnsetMultipliersRequest& request,
                   const CallContext& context) {
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern()));
  ASSIGN_OR_RETURN(const LongLock::Holder lock, LockRules(state, context));
  if (!state.Bindings()->multipliers.Get(request.key_pattern())) {
    return NothingBoundTo(request.key_pattern(), "no multipliers are");
  }
  return ChangeMultipliers(state, context, request.key_pattern(), nullptr);
}

// Changes the rule of a pattern, and returns it.
absl::StatusOr<RuleSpec> Change(NamespaceState& state,
                                const SetHyperparametersRequest& request,
                                const CallContext& context) {
  const Hyperparameters hyperparameters(request.hyperparameters().begin(),
                                        request.hyperparameters().end());
  RETURN_IF_ERROR(CheckKeyPattern(request.key_pattern()));
  ASSIGN_OR_RETURN(const LongLock::Holder lock, LockRules(state, context));
  const SharedRule present = state.Bindings()->Get(request.key_pattern());
  if (present == nullptr) return NoRuleOf(request.key_pattern());
  ASSIGN_OR_RETURN(UpdateRule rule, present->With(hyperparameters));
  RETURN_IF_ERROR(RuleChange(state, context, request.key_pattern(),
                             MakeRefCounted<BoundRule>(rule))
                      .Run());
  return rule.spec();
}

std::string TextOf(absl::string_view pattern, absl::string_view rule) {
  if (pattern.empty()) return absl::StrCat("default rule ", rule);
  return absl::StrCat("rule ", rule, " for ", Quoted(pattern));
}

}  // namespace

absl::Status BindRule(NamespaceState& state, const std::string& key_pattern,
                      const RuleSpec& rule, const CallContext& context) {
  RETURN_IF_ERROR(CheckKeyPattern(key_pattern));
  ASSIGN_OR_RETURN(UpdateRule update_rule, UpdateRule::Create(rule));
  ASSIGN_OR_RETURN(const LongLock::Holder lock, LockRules(state, context));
  return RuleChange(state, context, key_pattern,
                    MakeRefCounted<BoundRule>(std::move(update_rule)))
      .Run();
}

absl::Status BindMultipliers(NamespaceState& state,
                             const std::string& key_pattern,
                             const Multipliers& multipliers,
                             const CallContext& context) {
  RETURN_IF_ERROR(CheckKeyPattern(key_pattern));
  RETURN_IF_ERROR(CheckMultipliers(multipliers));
  ASSIGN_OR_RETURN(const LongLock::Holder lock, LockRules(state, context));
  return ChangeMultipliers(state, context, key_pattern,
                           MakeRefCounted<BoundMultipliers>(multipliers));
}

absl::Status Namespace::SetRule(const SetRuleRequest& request,
                                const CallContext& context) {
  if (!request.has_rule()) return absl::InvalidArgumentError("rule: missing");
  RETURN_IF_ERROR(BindRule(*state_, request.key_pattern(),
                           FromProto(request.rule()), context));
  state_->Report(StoreEvent::kRuleChanged,
                 TextOf(request.key_pattern(), request.rule().name()));
  return absl::OkStatus();
}

absl::Status Namespace::UnsetRule(const UnsetRuleRequest& request,
                                  const CallContext& context) {
  RETURN_IF_ERROR(Unset(*state_, request, context));
  state_->Report(StoreEvent::kRuleChanged,
                 absl::StrCat("no rule for ", Quoted(request.key_pattern())));
  return absl::OkStatus();
}

absl::Status Namespace::SetMultipliers(const SetMultipliersRequest& request,
                                       const CallContext& context) {
  if (!request.has_multipliers()) {
    return absl::InvalidArgumentError("multipliers: missing");
  }
  RETURN_IF_ERROR(BindMultipliers(*state_, request.key_pattern(),
                                  FromProto(request.multipliers()), context));
  state_->Report(
      StoreEvent::kRuleChanged,
      absl::StrCat("multipliers for ", Quoted(request.key_pattern())));
  return absl::OkStatus();
}

absl::Status Namespace::UnsetMultipliers(const UnsetMultipliersRequest& request,
                                         const CallContext& context) {
  RETURN_IF_ERROR(Unset(*state_, request, context));
  state_->Report(
      StoreEvent::kRuleChanged,
      absl::StrCat("no multipliers for ", Quoted(request.key_pattern())));
  return absl::OkStatus();
}

absl::StatusOr<SetHyperparametersReply> Namespace::SetHyperparameters(
    const SetHyperparametersRequest& request, const CallContext& context) {
  ASSIGN_OR_RETURN(const RuleSpec rule, Change(*state_, request, context));
  state_->Report(StoreEvent::kRuleChanged,
                 TextOf(request.key_pattern(), rule.name));
  SetHyperparametersReply reply;
  ToProto(rule, reply.mutable_rule());
  return reply;
}

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

namespace {

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

// Returns the state that `key` has under `rule`: what it keeps of its present
// state, of which SetRuleOf knows whether it is filled, and new tensors, to be
// filled by its next update.
absl::StatusOr<RefPtr<RuleState>> MakeState(const NamespaceState& of,
                                            const StoredKey& key,
                                            const UpdateRule& rule) {
  const bool keeps_master = rule.keeps_master(key.dtype());
  const bool keeps_weight = rule.kind() == RuleKind::kAverage;
  if (rule.num_states() == 0 && !keeps_master && !keeps_weight) return nullptr;

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
