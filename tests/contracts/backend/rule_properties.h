// What holds of every rule of kernels/rule_table.h, whatever its formula is: a
// row that is added there is tested by itself.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_RULE_PROPERTIES_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_RULE_PROPERTIES_H_

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace tensorkv::testing {

// Optimizers leave values as they are, to the bit, where the learning rate is
// 0: by itself, by a multiplier or by the end of a schedule; before any other
// update and after some. The states stay finite, and the key goes on
// afterwards.
absl::Status CheckRateOfZeroFreezes(Backend& backend);

// Finite elements become finite ones: by zeros of both signs, denormals, and
// hyperparameters at the ends of their ranges.
absl::Status CheckFiniteStaysFinite(Backend& backend);

// A row that is updated now and then is like a key of its own that is updated
// at the same t; where t does not matter, like one that is updated from t = 1
// on.
absl::Status CheckRowsAreKeysOfTheirOwn(Backend& backend);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_RULE_PROPERTIES_H_
