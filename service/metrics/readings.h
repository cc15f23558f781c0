// Metrics that are read when they are asked for.

#ifndef TENSORKV_SERVICE_METRICS_READINGS_H_
#define TENSORKV_SERVICE_METRICS_READINGS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace tensorkv {

// Adds a counter or a gauge, whichever the family is of.
inline void AddMetric(double value,
                      std::vector<prometheus::ClientMetric::Label> labels,
                      prometheus::MetricFamily& family) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  (family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                  : metric.gauge.value) = value;
}

// A metric that somebody else keeps: what `read` returns. Thread-safe if `read`
// is.
struct Reading {
  std::string name;
  std::string help;
  prometheus::MetricType type = prometheus::MetricType::Gauge;
  std::function<double()> read;
  std::vector<prometheus::ClientMetric::Label> labels = {};
};

// Reads at every scrape. Thread-safe.
class Readings final : public prometheus::Collectable {
 public:
  explicit Readings(std::vector<Reading> readings)
      : readings_(std::move(readings)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (const Reading& each : readings_) {
      // Readings of one name follow one another, with other labels.
      if (families.empty() || families.back().name != each.name) {
        families.push_back({each.name, each.help, each.type, {}});
      }
      AddMetric(each.read(), each.labels, families.back());
    }
    return families;
  }

 private:
  const std::vector<Reading> readings_;
};

// Returns what Prometheus' client libraries agree to show of a process, from
// /proc: process_cpu_seconds_total, process_resident_memory_bytes,
// process_virtual_memory_bytes, process_open_fds, process_max_fds,
// process_start_time_seconds (when this was called), process_threads.
std::vector<Reading> ProcessReadings();

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_READINGS_H_
