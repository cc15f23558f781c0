// A figure beside what bounds it.

#ifndef TENSORKV_BENCH_GPU_COMPARISON_H_
#define TENSORKV_BENCH_GPU_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tensorkv::bench::gpu {

// What ours is compared with.
struct Limit {
  std::string name;  // "device copy"
  double value = 0;  // in the unit of ours, above 0
  // How many times as fast as the limit ours is.
  double ratio = 0;
  // The least that the ratio should be.
  std::optional<double> goal;

  bool is_met() const { return !goal.has_value() || ratio >= *goal; }
};

// What was measured together has the same name and bytes.
struct Comparison {
  std::string name;   // "update/adam/f32/1GiB"
  int64_t bytes = 0;  // of the tensors that a call is about
  double ours = 0;    // the median of the trials or, of times, of the calls
  std::string unit;   // "GB/s", of 10^9 bytes; "us"
  std::optional<Limit> limit;
};

// Comparisons that are shown as one table.
struct ComparisonTable {
  std::string title;
  std::vector<Comparison> comparisons;
  // What could not be measured, each with the reason.
  std::vector<std::string> left_out;
};

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_COMPARISON_H_
