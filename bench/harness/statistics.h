// What is said about a set of samples.

#ifndef TENSORKV_BENCH_HARNESS_STATISTICS_H_
#define TENSORKV_BENCH_HARNESS_STATISTICS_H_

#include <vector>

namespace tensorkv::bench {

// The middle sample, or the mean of the two in the middle; 0 without samples.
double Median(std::vector<double> samples);

// The smallest sample that at least `fraction` (0 to 1) of the samples do not
// exceed; 0 without samples.
double Percentile(std::vector<double> samples, double fraction);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_STATISTICS_H_
