// Binds rules to patterns of keys, and to the keys that follow from that.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_CHANGE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_CHANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rules/rules_hold.h"

namespace tensorkv {

// Counts what a pattern takes besides its text.
inline constexpr uint64_t kPatternOverheadBytes = 512;

// Binds `rule` to `pattern`, and to the keys that follow from it. Null unbinds
// the pattern, which has a rule: its keys fall to those that govern them next.
// Until the bindings have changed, the caller of `context` may give it up.
// Takes long. Errors: those of SetRule; then nothing has changed.
absl::Status ChangeRule(const RulesHold& rules, const CallContext& context,
                        absl::string_view pattern, SharedRule rule);
// Makes the rule and binds it.
absl::Status BindRule(const RulesHold& rules, const CallContext& context,
                      absl::string_view pattern, const RuleSpec& rule);

// Returns one locking's keys, those with names after `last`.
std::vector<KeyPtr> KeysAfter(NamespaceState& state, const std::string& last);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_CHANGE_H_
