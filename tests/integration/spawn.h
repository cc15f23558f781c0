// Starts programs that a test kills.

#ifndef TENSORKV_TESTS_INTEGRATION_SPAWN_H_
#define TENSORKV_TESTS_INTEGRATION_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace tensorkv::testing {

// Starts the program that is the first argument, a path relative to where Bazel
// runs tests, with its standard output appended to the file `log`. The caller
// waits for the process.
pid_t Spawn(const std::vector<std::string>& arguments, const std::string& log);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_SPAWN_H_
