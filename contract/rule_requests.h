// The calls of namespace.proto about rules, multipliers and hyperparameters.

#ifndef TENSORKV_CONTRACT_RULE_REQUESTS_H_
#define TENSORKV_CONTRACT_RULE_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "contract/call_fields.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

struct SetRuleRequest {
  std::string name_space;
  std::string key_pattern;
  RuleSpec rule;
  std::optional<CallId> call_id;
  uint64_t namespace_uid = 0;
};

struct SetRuleReply {};

// Removes the rule of exactly `key_pattern`.
struct UnsetRuleRequest {
  std::string name_space;
  std::string key_pattern;
  std::optional<CallId> call_id;
  uint64_t namespace_uid = 0;
};

struct UnsetRuleReply {};

struct SetMultipliersRequest {
  std::string name_space;
  uint64_t namespace_uid = 0;
  std::string key_pattern;
  Multipliers multipliers;
  std::optional<CallId> call_id;
};

struct SetMultipliersReply {};

// Removes the multipliers of exactly `key_pattern`.
struct UnsetMultipliersRequest {
  std::string name_space;
  uint64_t namespace_uid = 0;
  std::string key_pattern;
  std::optional<CallId> call_id;
};

struct UnsetMultipliersReply {};

struct SetHyperparametersRequest {
  std::string name_space;
  std::string key_pattern;
  Hyperparameters hyperparameters;
  std::optional<CallId> call_id;
  uint64_t namespace_uid = 0;
};

using SetHyperparametersReply = RuleSpec;

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_RULE_REQUESTS_H_
