// Comparisons for people and for programs.

#ifndef TENSORKV_BENCH_GPU_COMPARISON_TEXT_H_
#define TENSORKV_BENCH_GPU_COMPARISON_TEXT_H_

#include <string>
#include <vector>

#include "bench/gpu/comparison.h"

namespace tensorkv::bench::gpu {

// A Markdown section: the title, the table, and what was left out.
std::string ComparisonText(const ComparisonTable& table);

// A JSON array with an object for each comparison:
//
//   name, bytes      what was measured; bytes of the tensors of a call
//   ours, unit       "GB/s" (of 10^9 bytes) or "us"
//   reference_name   "device copy", ...
//   reference        its figure, in the same unit
//   ratio            how many times as fast as the reference ours is
//   goal             the least that the ratio should be
//
// What does not apply is null.
std::string ComparisonsJson(const std::vector<ComparisonTable>& tables);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_COMPARISON_TEXT_H_
