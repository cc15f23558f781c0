#include "service/store/keyspace/rules/rule_change.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "contract/slices.h"
#include "service/store/keyspace/rules/rule_states.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds how often a change of rules looks for keys that have come meanwhile
// before it lets no more come.
constexpr int kMaxAttemptsForNewKeys = 16;

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
  if (!rule->Continues(*key.rule)) key.ResetUpdateCount();
  key.rule = rule;
  std::swap(key.rule_state, state);
}

// A change of rules on its way.
//
// It prepares every key's new state before it changes the first key, so that a
// failure changes nothing. Patterns are matched, and memory is allocated,
// without the mutex; the keys are read and changed in short lockings. So an
// update that runs meanwhile may have the old rule at some keys and the new one
// at others. Used by one thread, which has the RulesHold.
class RuleChange {
 public:
  // The arguments are those of ChangeRule; `context` outlives this.
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
    // Others wait for the RulesHold: copies for a snapshot are made elsewhere.
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

}  // namespace

absl::Status ChangeRule(const RulesHold& rules, const CallContext& context,
                        absl::string_view pattern, SharedRule rule) {
  return RuleChange(rules.state(), context, pattern, std::move(rule)).Run();
}

absl::Status BindRule(const RulesHold& rules, const CallContext& context,
                      absl::string_view pattern, const RuleSpec& rule) {
  RETURN_IF_ERROR(CheckKeyPattern(pattern));
  ASSIGN_OR_RETURN(UpdateRule made, UpdateRule::Create(rule));
  return ChangeRule(rules, context, pattern,
                    MakeRefCounted<BoundRule>(std::move(made)));
}

std::vector<KeyPtr> KeysAfter(NamespaceState& state, const std::string& last) {
  std::vector<KeyPtr> keys;
  MutexLock lock(&state.mutex);
  for (StoredKey* key : state.keys.List("", last, kKeysPerLock)) {
    keys.emplace_back(key);
  }
  return keys;
}

}  // namespace tensorkv
