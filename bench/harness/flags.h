// The flags that every benchmark program has.

#ifndef TENSORKV_BENCH_HARNESS_FLAGS_H_
#define TENSORKV_BENCH_HARNESS_FLAGS_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "bench/harness/plan.h"

namespace tensorkv::bench {

struct RunFlags {
  Plan plan;
  std::string json_file;  // empty: none
  std::string tensorkv_server = "service/tensorkv-server";
};

// Adds them to `app`, which sets `flags` when it parses.
void AddRunFlags(CLI::App* app, RunFlags* flags);

// Parses the command line. Returns the exit status where there is nothing to
// run: after --help, and 2 for wrong flags.
std::optional<int> Parse(int argc, char** argv, CLI::App* app);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_FLAGS_H_
