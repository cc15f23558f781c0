#include "service/metrics/server_gauges.h"

#include "prometheus/gauge.h"

namespace tensorkv {

void AddServerGauges(const std::string& version, uint64_t budget_bytes,
                     prometheus::Registry* registry) {
  prometheus::BuildGauge()
      .Name("tensorkv_build_info")
      .Help("Always 1; the version is in the label.")
      .Register(*registry)
      .Add({{"version", version}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("tensorkv_budget_bytes")
      .Help("Bound on the memory of all tensors.")
      .Register(*registry)
      .Add({})
      .Set(static_cast<double>(budget_bytes));
}

}  // namespace tensorkv
