// What a scrape of a collectable shows.

#ifndef TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_
#define TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_

#include <string>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace tensorkv::testing {

inline std::string Exposition(const prometheus::Collectable& collectable) {
  return prometheus::TextSerializer().Serialize(collectable.Collect());
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_METRICS_EXPOSITION_H_
