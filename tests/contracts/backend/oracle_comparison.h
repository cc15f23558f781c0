// Whether a backend computes what the oracle does.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_ORACLE_COMPARISON_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_ORACLE_COMPARISON_H_

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/contracts/backend/update_case.h"

namespace tensorkv::testing {

// Runs the case and compares every element with the oracle: integers and
// assign exactly; floats up to a few roundings of the accumulate type and one
// of the key's; values with a master are the master, rounded to nearest even.
::testing::AssertionResult AgreesWithOracle(Backend& backend,
                                            const UpdateCase& update_case);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_ORACLE_COMPARISON_H_
