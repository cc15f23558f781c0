// Weighted means of contributions.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_WEIGHTED_UPDATES_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_WEIGHTED_UPDATES_H_

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace tensorkv::testing {

// Takes weighted means of contributions to keys of every dtype, some of them
// packed, and compares them, to the last bit, with those that are multiplied,
// added and divided one element at a time; takes some sums ahead of others,
// which changes no bit; and compares what every rule makes of contributions
// with what it makes of their mean. Errors: DataLoss, naming the first element
// or rule that is wrong · the backend's.
absl::Status CheckWeightedUpdates(Backend& backend);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_WEIGHTED_UPDATES_H_
