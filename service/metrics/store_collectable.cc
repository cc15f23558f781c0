#include "service/metrics/store_collectable.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace tensorkv {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Statuses = std::vector<NamespaceStatus>;
using Field = uint64_t NamespaceStatus::*;

ClientMetric Sample(const NamespaceStatus& status, MetricType type,
                    uint64_t value) {
  ClientMetric metric;
  metric.label.push_back({"namespace", status.name});
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      static_cast<double>(value);
  return metric;
}

MetricFamily FamilyOf(const Statuses& statuses, std::string name,
                      std::string help, MetricType type, Field field) {
  MetricFamily family{std::move(name), std::move(help), type, {}};
  for (const NamespaceStatus& status : statuses) {
    family.metric.push_back(Sample(status, type, status.*field));
  }
  return family;
}

MetricFamily MemoryFamily(const Statuses& statuses) {
  MetricFamily family{
      "tensorkv_memory_bytes", "Bytes held, by use.", MetricType::Gauge, {}};
  const auto add = [&](const NamespaceStatus& status, const char* use,
                       uint64_t bytes) {
    family.metric.push_back(Sample(status, MetricType::Gauge, bytes));
    family.metric.back().label.push_back({"use", use});
  };
  for (const NamespaceStatus& status : statuses) {
    add(status, "values", status.memory.values);
    add(status, "state", status.memory.state);
    add(status, "contributions", status.memory.contributions);
    add(status, "metadata", status.memory.metadata);
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> StoreCollectable::Collect() const {
  const absl::StatusOr<Statuses> statuses = namespaces_.ListNamespaces();
  if (!statuses.ok()) return {};
  const auto family = [&](const char* name, const char* help, MetricType type,
                          Field field) {
    return FamilyOf(*statuses, name, help, type, field);
  };
  return {
      family("tensorkv_keys", "Keys that exist.", MetricType::Gauge,
             &NamespaceStatus::num_keys),
      MemoryFamily(*statuses),
      family("tensorkv_updates_total", "Updates applied to values.",
             MetricType::Counter, &NamespaceStatus::updates_applied),
      family("tensorkv_rounds_open", "Rounds that wait for contributions.",
             MetricType::Gauge, &NamespaceStatus::rounds_open),
      family("tensorkv_rounds_closed_total", "Rounds applied.",
             MetricType::Counter, &NamespaceStatus::rounds_closed),
      family("tensorkv_rounds_failed_total", "Rounds dropped.",
             MetricType::Counter, &NamespaceStatus::rounds_failed),
      family("tensorkv_calls_waiting", "Calls that wait for a value.",
             MetricType::Gauge, &NamespaceStatus::calls_waiting),
  };
}

}  // namespace tensorkv
