// What a scrape of a collectable shows.

#ifndef TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_
#define TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_

#include <string>

#include "prometheus/collectable.h"
#include "service/metrics/http_endpoint.h"

namespace tensorkv::testing {

inline std::string Exposition(const prometheus::Collectable& collectable) {
  return MetricsText({&collectable});
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_
