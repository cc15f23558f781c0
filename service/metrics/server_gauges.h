// Metrics that say which server this is and how large it may grow.

#ifndef TENSORKV_SERVICE_METRICS_SERVER_GAUGES_H_
#define TENSORKV_SERVICE_METRICS_SERVER_GAUGES_H_

#include <cstdint>
#include <string>

#include "prometheus/registry.h"

namespace tensorkv {

// Adds tensorkv_build_info, which is 1 and has the label version, and
// tensorkv_budget_bytes, the bound on all tensor memory of the server.
void AddServerGauges(const std::string& version, uint64_t budget_bytes,
                     prometheus::Registry* registry);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_SERVER_GAUGES_H_
