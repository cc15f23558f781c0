// What a scrape of a collectable shows.

#ifndef TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_
#define TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_

#include <string>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "service/metrics/text_format.h"

namespace tensorkv::testing {

inline std::string Exposition(const prometheus::Collectable& collectable) {
  return ToText(collectable.Collect());
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_
