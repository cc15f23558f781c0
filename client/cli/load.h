// A load on a server, and what it has measured.

#ifndef TENSORKV_CLIENT_CLI_LOAD_H_
#define TENSORKV_CLIENT_CLI_LOAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tensorkv {

struct LoadResult {
  std::string call;
  uint64_t bytes_per_call = 0;
  uint64_t num_calls = 0;
  absl::Duration duration;
  // Percentiles of how long single calls took.
  absl::Duration median;
  absl::Duration p99;
};

// Makes `call` again and again, on each of `num_threads` threads, until
// `duration` has passed; each thread at least once. `call` gets the number of
// its thread. Fills in all but the name and the bytes.
// Errors: the first of `call`, after which no other is made.
absl::StatusOr<LoadResult> RunLoad(
    int num_threads, absl::Duration duration,
    const std::function<absl::Status(int thread)>& call);

// Returns a table with a line per result: call size calls calls/s rate p50 p99.
std::string LoadTable(const std::vector<LoadResult>& results);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_LOAD_H_
