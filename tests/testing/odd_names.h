// Names that the store takes and that files, texts and shells might not.

#ifndef TENSORKV_TESTS_TESTING_ODD_NAMES_H_
#define TENSORKV_TESTS_TESTING_ODD_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace tensorkv::testing {

// All differ, and are UTF-8 of 1 to `max_bytes` bytes without control
// characters: with what JSON, CSV, HTML, Prometheus, shells, globs, paths and
// flags have a meaning for, from right to left, of one letter in two forms, as
// long as names may be; then `num_random` of random characters.
std::vector<std::string> OddNames(size_t max_bytes, size_t num_random = 100);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_ODD_NAMES_H_
