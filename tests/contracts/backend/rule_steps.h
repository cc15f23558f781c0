// Many updates of one key by every rule, beside the oracle.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_RULE_STEPS_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_RULE_STEPS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace tensorkv::testing {

// How far a backend has come from the oracle.
struct RuleError {
  std::string rule;
  DType dtype;
  // The largest, relative to the largest magnitude of the value's elements.
  double relative_error;
  double bound;
};

// Runs 20 updates of every rule on f32, f64, f16 and bf16 keys of random
// shapes: with decay, clipping, rescaling, multipliers, and a schedule in every
// other row. What a key that is rounded at every update comes to is left out.
absl::StatusOr<std::vector<RuleError>> ErrorsOfTwentyUpdates(Backend& backend);

// A line per error.
std::string TableOf(const std::vector<RuleError>& errors);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_RULE_STEPS_H_
