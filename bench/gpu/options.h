// The command line of the benchmark of a GPU.

#ifndef TENSORKV_BENCH_GPU_OPTIONS_H_
#define TENSORKV_BENCH_GPU_OPTIONS_H_

#include <string>
#include <variant>
#include <vector>

#include "bench/data_path/suites/plan.h"

namespace tensorkv::bench::gpu {

struct Options {
  Plan plan;
  int gpu = 0;            // by its number in CUDA
  std::string json_file;  // empty: none
  std::string tensorkv_server = "service/tensorkv-server";
};

// What to print, and the exit status, in place of a run.
struct EarlyExit {
  std::string text;
  int code = 0;
};

// `arguments` without the program's name.
std::variant<Options, EarlyExit> ParseOptions(
    const std::vector<std::string>& arguments);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_OPTIONS_H_
