// Medians and trimmed means of contributions.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_AVERAGED_UPDATES_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_AVERAGED_UPDATES_H_

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace tensorkv::testing {

// Averages the middle of contributions of every float dtype, some of them
// packed, some elements NaN, Inf, -0 or equal, and compares the values, to the
// last bit, with those of numbers that are sorted and added in f64; and
// compares what every rule makes of contributions with what it makes of their
// mean. Errors: DataLoss, naming the first element or rule that is wrong · the
// backend's.
absl::Status CheckAveragedUpdates(Backend& backend);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_AVERAGED_UPDATES_H_
