// Exports how checkpoints go, as metrics.

#ifndef TENSORKV_SERVICE_SERVER_CHECKPOINT_READINGS_H_
#define TENSORKV_SERVICE_SERVER_CHECKPOINT_READINGS_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "service/checkpoint/checkpoints.h"
#include "service/metrics/readings.h"

namespace tensorkv {

// Returns the histogram of how long a checkpoint kept the calls of a namespace
// waiting. Once for a registry, which has the histogram.
prometheus::Histogram& CheckpointPausesIn(prometheus::Registry& registry);

// `interval` is how often a checkpoint is to be made; 0 is never.
std::vector<Reading> CheckpointReadings(
    absl::Duration interval, std::function<CheckpointCounts()> counts);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CHECKPOINT_READINGS_H_
