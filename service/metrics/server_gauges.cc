#include "service/metrics/server_gauges.h"

#include "prometheus/gauge.h"

namespace tensorkv {

void AddServerGauges(const ServerStatus& status,
                     prometheus::Registry* registry) {
  prometheus::BuildGauge()
      .Name("tensorkv_build_info")
      .Help("Always 1; the version is in the label.")
      .Register(*registry)
      .Add({{"version", status.version}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("tensorkv_budget_bytes")
      .Help("Bound on what is kept in the host's memory.")
      .Register(*registry)
      .Add({})
      .Set(static_cast<double>(status.budget_bytes));
  if (status.device_budgets.empty()) return;
  auto& budgets = prometheus::BuildGauge()
                      .Name("tensorkv_device_budget_bytes")
                      .Help("Bound on the tensors kept in a device's memory.")
                      .Register(*registry);
  for (const DeviceBudget& budget : status.device_budgets) {
    budgets.Add({{"device", budget.device}})
        .Set(static_cast<double>(budget.budget_bytes));
  }
}

}  // namespace tensorkv
