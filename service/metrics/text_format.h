// Prometheus' text format.

#ifndef TENSORKV_SERVICE_METRICS_TEXT_FORMAT_H_
#define TENSORKV_SERVICE_METRICS_TEXT_FORMAT_H_

#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace tensorkv {

// Writes families as a page of that format, version 0.0.4. Histograms and
// summaries that have seen nothing are left out, and so are families without
// metrics: 45 lines each would tell nothing. Numbers are written with as few
// digits as name them: prometheus-cpp's own serializer makes
// 0.0005999999999999999 of 0.0006.
std::string ToText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_TEXT_FORMAT_H_
