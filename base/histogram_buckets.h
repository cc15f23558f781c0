// Upper bounds of histogram buckets, those of gRFC A66 (gRPC's own metrics).
// Prometheus' defaults start at 5 ms, above most calls of this service.

#ifndef TENSORKV_BASE_HISTOGRAM_BUCKETS_H_
#define TENSORKV_BASE_HISTOGRAM_BUCKETS_H_

#include <algorithm>
#include <functional>
#include <initializer_list>

namespace tensorkv {

// Seconds, from 10 microseconds to 100 seconds.
inline constexpr std::initializer_list<double> kLatencyBucketsSeconds = {
    0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002,
    0.003,   0.004,   0.005,  0.006,  0.008,  0.01,   0.013, 0.016,
    0.02,    0.025,   0.03,   0.04,   0.05,   0.065,  0.08,  0.1,
    0.13,    0.16,    0.2,    0.25,   0.3,    0.4,    0.5,   0.65,
    0.8,     1,       2,      5,      10,     20,     50,    100};

// Bytes, from 1 KiB to 4 GiB.
inline constexpr std::initializer_list<double> kSizeBucketsBytes = {
    1024,    2048,     4096,     16384,     65536,      262144,    1048576,
    4194304, 16777216, 67108864, 268435456, 1073741824, 4294967296};

// Prometheus takes bounds only if each is above the one before.
static_assert(std::ranges::adjacent_find(kLatencyBucketsSeconds,
                                         std::ranges::greater_equal()) ==
              kLatencyBucketsSeconds.end());
static_assert(std::ranges::adjacent_find(kSizeBucketsBytes,
                                         std::ranges::greater_equal()) ==
              kSizeBucketsBytes.end());

}  // namespace tensorkv

#endif  // TENSORKV_BASE_HISTOGRAM_BUCKETS_H_
