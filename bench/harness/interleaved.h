// Measures several loads in turns, since the machine drifts.

#ifndef TENSORKV_BENCH_HARNESS_INTERLEAVED_H_
#define TENSORKV_BENCH_HARNESS_INTERLEAVED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bench/harness/clocks.h"
#include "bench/harness/load.h"

namespace tensorkv::bench {

struct MeasureOptions {
  // Trials of each load.
  int repetitions = 5;
  // How long a trial takes at least, unless one round of calls takes longer.
  absl::Duration trial_time = absl::Milliseconds(100);
};

// GB is 10^9 bytes.
struct Measurement {
  // Medians over the trials.
  double gigabytes_per_second = 0;
  double keys_per_second = 0;
  // What the client and the server took, over all trials; 0 for a load that
  // moves no bytes.
  double cpu_seconds_per_gigabyte = 0;
  // Over the calls of all trials.
  double p50_microseconds = 0;
  double p99_microseconds = 0;
};

// One measurement per load, in their order: the trials are those of the first,
// the second, ..., the first again, after a warm-up of each that finds how
// many calls fill a trial. A load that fails is left out from then on and gets
// its error; a null one gets NotFound.
std::vector<absl::StatusOr<Measurement>> MeasureInterleaved(
    absl::Span<Load* const> loads, const MeasureOptions& options,
    const Clocks& clocks = {});

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_INTERLEAVED_H_
