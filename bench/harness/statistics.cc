#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tensorkv::bench {
namespace {

double SampleAt(std::vector<double>* samples, size_t rank) {
  std::nth_element(samples->begin(), samples->begin() + rank, samples->end());
  return (*samples)[rank];
}

}  // namespace

double Median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const size_t middle = samples.size() / 2;
  const double upper = SampleAt(&samples, middle);
  if (samples.size() % 2 == 1) return upper;
  return (SampleAt(&samples, middle - 1) + upper) / 2;
}

double Percentile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return 0;
  const double rank = std::ceil(fraction * samples.size());
  const size_t index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return SampleAt(&samples, std::min(index, samples.size() - 1));
}

}  // namespace tensorkv::bench
