// Measures calls of ours and of others in turns, since the machine drifts.

#ifndef TENSORKV_BENCH_HARNESS_ROWS_H_
#define TENSORKV_BENCH_HARNESS_ROWS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tensorkv::bench {

// Calls of one kind, ready to be made. `call` holds what they need (keys that
// exist, buffers), and gives it back when it is destroyed.
struct Load {
  std::function<absl::Status()> call;
  int64_t bytes = 0;  // of tensors that one call moves, both ways
  int64_t keys = 1;   // of one call
  pid_t server = 0;   // whose CPU time counts beside this process's; 0: none
  // Waits for calls that return before they are done, at the end of a trial.
  std::function<absl::Status()> wait = nullptr;
  // Returns what counts of the last call, where that is not all of its time.
  std::function<absl::Duration()> took = nullptr;
  int least_calls = 1;  // of a trial, however long they take
};

// Errors: why there is none, such as a server that is not installed.
using MakeLoad = std::function<absl::StatusOr<Load>()>;

struct Reference {
  std::string name;
  MakeLoad make_load;
  double goal = 0;  // how many times as fast ours is to be; 0: no goal
};

// A line of the table: ours, and what it is compared with; or, where there is a
// `figure`, a number that is no speed.
struct Row {
  std::string name;
  MakeLoad make_load;
  std::vector<Reference> references;
  bool is_quick = true;  // whether a quick run has it
  // A bound of the median call, where that is a goal.
  absl::Duration most_time = absl::InfiniteDuration();
  std::function<absl::StatusOr<double>()> figure = nullptr;
  double most = 0;  // the bound of the figure
};

struct MeasureOptions {
  int repetitions = 5;  // trials of each load
  // What a trial takes at least, unless one call takes longer.
  absl::Duration trial_time = absl::Milliseconds(100);
};

struct RowResult {
  absl::Status status;  // why the row was not measured
  // "GB/s" (10^9 bytes) and "Mkeys/s", medians over the trials; "cpu_s/GB" of
  // client and server; "p50_us" and "p99_us" over all calls. "figure" of a
  // figure.
  std::map<std::string, double> columns;
  // By the name of each reference how many times as fast ours is.
  std::map<std::string, double> ratios;
  std::vector<std::string> missed;    // goals
  std::vector<std::string> left_out;  // references, with the reason
  int num_goals = 0;
};

// Makes the loads and runs their trials in turns: ours, the first reference,
// ..., ours again, after a warm-up of each that finds how many calls fill a
// trial. A reference that fails is left out from then on.
RowResult MeasureRow(const Row& row, const MeasureOptions& options);

// Calls `call` for 0 to count - 1 on as many threads, and returns the first
// error when all have returned.
absl::Status InParallel(int count,
                        const std::function<absl::Status(int)>& call);

double Median(std::vector<double> samples);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_ROWS_H_
