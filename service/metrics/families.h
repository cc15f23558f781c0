// Metrics that are read when they are asked for.

#ifndef TENSORKV_SERVICE_METRICS_FAMILIES_H_
#define TENSORKV_SERVICE_METRICS_FAMILIES_H_

#include <string>
#include <utility>
#include <vector>

#include "prometheus/client_metric.h"
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

// Returns a family of one metric without labels.
inline prometheus::MetricFamily SingleMetric(std::string name, std::string help,
                                             prometheus::MetricType type,
                                             double value) {
  prometheus::MetricFamily family{std::move(name), std::move(help), type, {}};
  AddMetric(value, {}, family);
  return family;
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_FAMILIES_H_
