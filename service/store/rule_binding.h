// Rules and multipliers with the patterns of the keys that have them.

#ifndef TENSORKV_SERVICE_STORE_RULE_BINDING_H_
#define TENSORKV_SERVICE_STORE_RULE_BINDING_H_

#include <string>

#include "tensor/rule_spec.h"

namespace tensorkv {

struct RuleBinding {
  std::string key_pattern;
  RuleSpec rule;
};

struct MultipliersBinding {
  std::string key_pattern;
  Multipliers multipliers;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_RULE_BINDING_H_
