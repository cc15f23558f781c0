// Updates by packed contributions.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_PACKED_UPDATES_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_PACKED_UPDATES_H_

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace tensorkv::testing {

// Adds, by the rule accumulate and by assign, packed contributions of every
// kind between plain ones to values of every float dtype and of sizes that fill
// no whole byte, block or part; and so to two parts of values. The bits must be
// those of one update by what an element at a time decodes to.
// Errors: DataLoss, naming the first case that is wrong · the backend's.
absl::Status CheckPackedUpdates(Backend& backend);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_PACKED_UPDATES_H_
