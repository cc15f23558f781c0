// What the rules compute, from their formulas in proto/tensorkv/v1/rule.proto,
// with more precision than any backend.

#ifndef TENSORKV_TESTS_CONTRACTS_UPDATE_ORACLE_H_
#define TENSORKV_TESTS_CONTRACTS_UPDATE_ORACLE_H_

#include <cstdint>
#include <vector>

#include "tensor/rule_spec.h"

namespace tensorkv::testing {

// A number and the largest magnitude that went into it: a backend's result may
// be off by some rounding errors of that magnitude.
struct Estimate {
  long double value = 0;
  long double scale = 0;
};

// One element before an update: value, summed contribution, states.
struct OracleInput {
  long double w = 0;
  long double g = 0;
  long double m = 0;
  long double v = 0;
  // t
  uint64_t update_count = 1;
};

// The element after it.
struct OracleOutput {
  Estimate w;
  // As many as the rule has.
  std::vector<Estimate> states;
};

// A rule under test: every hyperparameter is spelled out in `spec`.
struct OracleRule {
  RuleSpec spec;
  bool is_optimizer;
  OracleOutput (*update)(const Hyperparameters& h, const OracleInput& input);

  OracleOutput Update(const OracleInput& input) const {
    return update(spec.hyperparameters, input);
  }
};

// At least one row per rule; several where hyperparameters choose a branch.
const std::vector<OracleRule>& OracleRules();

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_UPDATE_ORACLE_H_
