// What the programs that measure rows have in common.

#ifndef TENSORKV_BENCH_HARNESS_RUN_H_
#define TENSORKV_BENCH_HARNESS_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/harness/rows.h"

namespace tensorkv::bench {

struct RunFlags {
  bool is_quick = false;
  MeasureOptions measure;
  std::string only;                  // a regular expression
  std::string json_file;             // empty: none
  std::string revision = "unknown";  // of the sources, for the records
  std::string tensorkv_server = "service/tensorkv-server";
};

// Adds them to `app`, which sets `flags` when it parses.
void AddRunFlags(CLI::App* app, RunFlags* flags);

// Parses the command line. Returns the exit status where there is nothing to
// run: after --help, and 2 for wrong flags.
std::optional<int> Parse(int argc, char** argv, CLI::App* app);

// Measures the rows that the flags ask for by Google Benchmark, which prints
// them and writes its JSON, and says at the end which goals were met.
void RunRows(const std::vector<Row>& rows, const RunFlags& flags);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_RUN_H_
