// base/histogram_buckets.h as the metrics library takes it.

#ifndef TENSORKV_SERVICE_METRICS_HISTOGRAM_BOUNDS_H_
#define TENSORKV_SERVICE_METRICS_HISTOGRAM_BOUNDS_H_

#include <iterator>

#include "base/histogram_buckets.h"
#include "prometheus/histogram.h"

namespace tensorkv {

inline prometheus::Histogram::BucketBoundaries LatencyBounds() {
  return {std::begin(kLatencyBucketsSeconds), std::end(kLatencyBucketsSeconds)};
}

inline prometheus::Histogram::BucketBoundaries SizeBounds() {
  return {std::begin(kSizeBucketsBytes), std::end(kSizeBucketsBytes)};
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_HISTOGRAM_BOUNDS_H_
