// Numbers that somebody else keeps, as metrics.

#ifndef TENSORKV_SERVICE_METRICS_READINGS_H_
#define TENSORKV_SERVICE_METRICS_READINGS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "service/metrics/families.h"

namespace tensorkv {

// A metric without labels: what `read` returns. Thread-safe if `read` is.
struct Reading {
  std::string name;
  std::string help;
  prometheus::MetricType type = prometheus::MetricType::Gauge;
  std::function<double()> read;
};

// Reads at every scrape. Thread-safe.
class Readings final : public prometheus::Collectable {
 public:
  explicit Readings(std::vector<Reading> readings)
      : readings_(std::move(readings)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (const Reading& each : readings_) {
      families.push_back(
          SingleMetric(each.name, each.help, each.type, each.read()));
    }
    return families;
  }

 private:
  const std::vector<Reading> readings_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_READINGS_H_
