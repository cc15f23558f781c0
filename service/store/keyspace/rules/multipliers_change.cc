#include "service/store/keyspace/rules/multipliers_change.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/slices.h"
#include "service/store/keyspace/rules/rule_change.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

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

}  // namespace

// New keys have the multipliers as soon as the bindings have changed; the
// others follow in short lockings, so that an update that runs meanwhile may
// find the old ones. It goes on then though the caller may not: half of a
// change is none.
absl::Status ChangeMultipliers(const RulesHold& rules,
                               const CallContext& context,
                               absl::string_view pattern,
                               SharedMultipliers multipliers) {
  NamespaceState& state = rules.state();
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

absl::Status BindMultipliers(const RulesHold& rules, const CallContext& context,
                             absl::string_view pattern,
                             const Multipliers& multipliers) {
  RETURN_IF_ERROR(CheckKeyPattern(pattern));
  for (const double number :
       {multipliers.learning_rate, multipliers.weight_decay}) {
    if (std::isfinite(number) && number >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "multipliers: expected finite numbers >= 0, got ", number));
  }
  return ChangeMultipliers(rules, context, pattern,
                           MakeRefCounted<BoundMultipliers>(multipliers));
}

}  // namespace tensorkv
