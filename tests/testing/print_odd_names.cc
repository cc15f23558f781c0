// Prints names that keys may have, or namespaces: print_odd_names MAX_BYTES.
// Each ends with a zero byte.

#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/testing/odd_names.h"

int main(int argc, char** argv) {
  const int max_bytes = argc > 1 ? std::atoi(argv[1]) : 1024;
  for (const std::string& name : tensorkv::testing::OddNames(max_bytes)) {
    std::cout << name << '\0';
  }
}
