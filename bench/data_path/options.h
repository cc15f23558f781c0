// The benchmark's command line.

#ifndef TENSORKV_BENCH_DATA_PATH_OPTIONS_H_
#define TENSORKV_BENCH_DATA_PATH_OPTIONS_H_

#include <string>
#include <variant>
#include <vector>

#include "bench/data_path/suites/plan.h"
#include "bench/harness/affinity.h"

namespace tensorkv::bench {

struct Options {
  Plan plan;
  std::string json_file;      // empty: none
  std::string markdown_file;  // empty: none
  std::string tensorkv_server = "service/tensorkv-server";
  std::string reference_server = "bench/data_path/reference_server";
  CpuList server_cpus = {0};
  CpuList client_cpus = {1};
  // What the report says about the sources and the call.
  std::string revision = "unknown";
  std::string command = "data_path_benchmark";
};

// What to print, and the exit status, in place of a run.
struct EarlyExit {
  std::string text;
  int code = 0;
};

// `arguments` without the program's name.
std::variant<Options, EarlyExit> ParseOptions(
    const std::vector<std::string>& arguments);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_OPTIONS_H_
