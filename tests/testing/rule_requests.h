// Requests about rules, multipliers and hyperparameters.

#ifndef TENSORKV_TESTS_TESTING_RULE_REQUESTS_H_
#define TENSORKV_TESTS_TESTING_RULE_REQUESTS_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "contract/proto_codec.h"
#include "contract/requests.h"
#include "tensor/rule_spec.h"

namespace tensorkv::testing {

// Returns a request about what is bound to `key_pattern`, such as an
// UnsetRuleRequest, with nothing else.
template <typename Request>
Request OfPattern(std::string key_pattern, std::string name_space = "") {
  Request request;
  request.set_namespace_(std::move(name_space));
  request.set_key_pattern(std::move(key_pattern));
  return request;
}

inline SetRuleRequest SetRuleOf(const RuleSpec& rule,
                                std::string key_pattern = "",
                                std::string name_space = "") {
  auto request =
      OfPattern<SetRuleRequest>(std::move(key_pattern), std::move(name_space));
  ToProto(rule, request.mutable_rule());
  return request;
}
// REQUIRES: `rule` is as ParseRuleSpec takes it.
inline SetRuleRequest SetRuleOf(absl::string_view rule,
                                std::string key_pattern = "",
                                std::string name_space = "") {
  return SetRuleOf(ParseRuleSpec(rule).value(), std::move(key_pattern),
                   std::move(name_space));
}

inline SetMultipliersRequest SetMultipliersOf(const Multipliers& multipliers,
                                              std::string key_pattern,
                                              std::string name_space = "") {
  auto request = OfPattern<SetMultipliersRequest>(std::move(key_pattern),
                                                  std::move(name_space));
  ToProto(multipliers, request.mutable_multipliers());
  return request;
}

inline SetHyperparametersRequest SetHyperparametersOf(
    const Hyperparameters& hyperparameters, std::string key_pattern = "",
    std::string name_space = "") {
  auto request = OfPattern<SetHyperparametersRequest>(std::move(key_pattern),
                                                      std::move(name_space));
  request.mutable_hyperparameters()->insert(hyperparameters.begin(),
                                            hyperparameters.end());
  return request;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_RULE_REQUESTS_H_
