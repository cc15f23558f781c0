// Binds multipliers to patterns of keys, and to the keys that follow from that.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_MULTIPLIERS_CHANGE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_MULTIPLIERS_CHANGE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/store/keyspace/rules/rule_bindings.h"
#include "service/store/keyspace/rules/rules_hold.h"

namespace tensorkv {

// Binds the multipliers to `pattern`, and to the keys that follow from it; null
// unbinds it. Until the bindings have changed, the caller of `context` may give
// it up. Takes long. Errors: those of SetMultipliers.
absl::Status ChangeMultipliers(const RulesHold& rules,
                               const CallContext& context,
                               absl::string_view pattern,
                               SharedMultipliers multipliers);
// Checks the multipliers and binds them.
absl::Status BindMultipliers(const RulesHold& rules, const CallContext& context,
                             absl::string_view pattern,
                             const Multipliers& multipliers);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_MULTIPLIERS_CHANGE_H_
