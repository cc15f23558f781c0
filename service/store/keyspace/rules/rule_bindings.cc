#include "service/store/keyspace/rules/rule_bindings.h"

namespace tensorkv {

std::vector<RuleBinding> RuleBindings::List() const {
  std::vector<RuleBinding> list;
  list.reserve(bindings().size());
  for (auto it = bindings().rbegin(); it != bindings().rend(); ++it) {
    list.push_back({it->pattern, it->value->spec()});
  }
  return list;
}

std::vector<MultipliersBinding> MultipliersBindings::List() const {
  std::vector<MultipliersBinding> list;
  for (auto it = bindings().rbegin(); it != bindings().rend(); ++it) {
    if (it->value) list.push_back({it->pattern, *it->value});
  }
  return list;
}

}  // namespace tensorkv
