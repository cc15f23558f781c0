// Says which rule and which multipliers the keys of a namespace have.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_BINDINGS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_BINDINGS_H_

#include <utility>
#include <vector>

#include "base/ref_counted.h"
#include "kernels/update_rule.h"
#include "service/store/keyspace/rules/pattern_bindings.h"
#include "service/store/rule_binding.h"

namespace tensorkv {

// A rule that keys share.
struct BoundRule final : RefCounted, UpdateRule {
  explicit BoundRule(UpdateRule rule) : UpdateRule(std::move(rule)) {}
};
using SharedRule = RefPtr<const BoundRule>;

// Multipliers that keys share.
struct BoundMultipliers final : RefCounted, Multipliers {
  explicit BoundMultipliers(const Multipliers& multipliers)
      : Multipliers(multipliers) {}
};
// Null: both are 1.
using SharedMultipliers = RefPtr<const BoundMultipliers>;

class MultipliersBindings final : public PatternBindings<SharedMultipliers> {
 public:
  MultipliersBindings() : PatternBindings(nullptr) {}

  // Returns them in order of precedence, without what multiplies by 1 by
  // default.
  std::vector<MultipliersBinding> List() const;
};

// Multipliers have patterns of their own.
class RuleBindings final : public PatternBindings<SharedRule> {
 public:
  using PatternBindings::PatternBindings;

  // Returns them in order of precedence, the default last.
  std::vector<RuleBinding> List() const;

  MultipliersBindings multipliers;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_BINDINGS_H_
