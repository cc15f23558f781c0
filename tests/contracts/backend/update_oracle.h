// What the rules compute, from their formulas in proto/tensorkv/v1/rule.proto,
// with more precision than any backend and one element at a time.

#ifndef TENSORKV_TESTS_CONTRACTS_UPDATE_ORACLE_H_
#define TENSORKV_TESTS_CONTRACTS_UPDATE_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/rule_spec.h"

namespace tensorkv::testing {

// One element: value, summed contribution, states.
struct OracleElement {
  long double w = 0;
  long double g = 0;
  // As many as the rule has.
  std::vector<long double> states;
};

// How far rounding in numbers of a relative precision may move the element.
using OracleTolerance = OracleElement;

// A rule under test: every hyperparameter is spelled out in `spec`.
struct OracleRule {
  RuleSpec spec;
  // A letter per state: '+' for what is never negative, else '~'.
  std::string states;
  // Makes update `t` (from 1) of the element.
  void (*update)(const Hyperparameters& h, uint64_t t, OracleElement& element);
  // Without, integers may be its keys.
  bool is_optimizer = true;
  // Where `update` needs sums over the whole key before it, or over the
  // element's row: adds them to the hyperparameters.
  void (*add_sums)(const OracleElement* elements, size_t count, uint64_t t,
                   Hyperparameters& h) = nullptr;

  // The rule for a key, or for a row, of those elements.
  OracleRule WithSums(const std::vector<OracleElement>& elements,
                      uint64_t t) const;

  OracleElement Update(const OracleElement& before, uint64_t t) const;

  // How much the result changes where inputs and hyperparameters are off by
  // `precision` of themselves.
  OracleTolerance ToleranceOf(const OracleElement& before, uint64_t t,
                              long double precision) const;
};

// At least one row per rule; several where hyperparameters choose a branch.
const std::vector<OracleRule>& OracleRules();

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_UPDATE_ORACLE_H_
