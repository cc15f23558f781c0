// Updates that no backend takes.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_INVALID_UPDATES_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_INVALID_UPDATES_H_

#include "kernels/backend.h"

namespace tensorkv::testing {

// Runs each behind a copy and a good update. Expects InvalidArgument with what
// is wrong with it, and that nothing has an effect.
void ExpectInvalidUpdatesAreRefused(Backend& backend);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_INVALID_UPDATES_H_
