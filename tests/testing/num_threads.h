// How many threads there are, for tests of what takes none.

#ifndef TENSORKV_TESTS_TESTING_NUM_THREADS_H_
#define TENSORKV_TESTS_TESTING_NUM_THREADS_H_

#include <fstream>
#include <string>

namespace tensorkv::testing {

// Returns how many threads this process has; -1 if the system does not tell.
inline int NumThreads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "Threads:") continue;
    int num_threads = 0;
    status >> num_threads;
    return num_threads;
  }
  return -1;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_NUM_THREADS_H_
