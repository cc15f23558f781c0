// The figures for programs.

#ifndef TENSORKV_BENCH_HARNESS_RECORDS_JSON_H_
#define TENSORKV_BENCH_HARNESS_RECORDS_JSON_H_

#include <string>
#include <vector>

#include "bench/harness/section.h"

namespace tensorkv::bench {

// A JSON array with an object for each row and reference:
//
//   name, bytes, in_flight  which calls; bytes of tensors in one direction
//   ours_gbps               gigabytes (10^9) per second, both ways
//   reference               "raw", "naive", ...
//   reference_gbps, ratio   ratio is ours / reference
//   cpu_s_per_gb            CPU seconds of our client and server
//   p50_us, p99_us          per call of ours
//   keys_per_s, reference_keys_per_s, reference_p50_us, reference_p99_us,
//   reference_cpu_s_per_gb
//
// What does not apply is null: calls that move no tensors have no rate in
// gigabytes, and their ratio is that of keys_per_s. A row without references
// has one object. A figure has the same fields, null but for its name, and
// `value` and `unit`.
std::string RecordsJson(const std::vector<Section>& sections);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_RECORDS_JSON_H_
