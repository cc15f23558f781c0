// The calls of namespace.proto about rules, multipliers and hyperparameters.

#ifndef TENSORKV_CONTRACT_RULE_REQUESTS_H_
#define TENSORKV_CONTRACT_RULE_REQUESTS_H_

#include "tensorkv/v1/namespace.pb.h"

namespace tensorkv {

using SetRuleRequest = v1::SetRuleRequest;
using SetRuleReply = v1::SetRuleResponse;
using UnsetRuleRequest = v1::UnsetRuleRequest;
using UnsetRuleReply = v1::UnsetRuleResponse;
using SetMultipliersRequest = v1::SetMultipliersRequest;
using SetMultipliersReply = v1::SetMultipliersResponse;
using UnsetMultipliersRequest = v1::UnsetMultipliersRequest;
using UnsetMultipliersReply = v1::UnsetMultipliersResponse;
using SetHyperparametersRequest = v1::SetHyperparametersRequest;
using SetHyperparametersReply = v1::SetHyperparametersResponse;

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_RULE_REQUESTS_H_
