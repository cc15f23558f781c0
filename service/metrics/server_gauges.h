// Metrics that say which server this is and how large it may grow.

#ifndef TENSORKV_SERVICE_METRICS_SERVER_GAUGES_H_
#define TENSORKV_SERVICE_METRICS_SERVER_GAUGES_H_

#include "contract/requests.h"
#include "prometheus/registry.h"

namespace tensorkv {

// Adds what of `status` does not change:
//
//   tensorkv_build_info           1; label: version
//   tensorkv_budget_bytes         bound on what is kept in the host's memory
//   tensorkv_device_budget_bytes  bound on the tensors of a GPU; label: device
void AddServerGauges(const ServerStatus& status,
                     prometheus::Registry* registry);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_SERVER_GAUGES_H_
