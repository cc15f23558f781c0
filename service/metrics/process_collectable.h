// Exports what the system says about this process, as metrics.

#ifndef TENSORKV_SERVICE_METRICS_PROCESS_COLLECTABLE_H_
#define TENSORKV_SERVICE_METRICS_PROCESS_COLLECTABLE_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace tensorkv {

// The metrics that Prometheus' client libraries agree on, read from /proc at
// every scrape: process_cpu_seconds_total, process_resident_memory_bytes,
// process_virtual_memory_bytes, process_open_fds, process_max_fds,
// process_start_time_seconds, process_threads. Thread-safe.
class ProcessCollectable final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_PROCESS_COLLECTABLE_H_
