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

// Adds to `registry`, which owns it, the histogram of how long a checkpoint
// kept the calls of a namespace waiting, and returns it. Call it once for a
// registry.
prometheus::Histogram& AddCheckpointPauses(prometheus::Registry& registry);

// Returns the metrics of a server's checkpoints. `interval` is how often one is
// to be made; 0 is never. Each scrape calls `counts` once for each metric.
std::vector<Reading> CheckpointReadings(
    absl::Duration interval, std::function<CheckpointCounts()> counts);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CHECKPOINT_READINGS_H_
