#include "service/metrics/device_collectable.h"

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace tensorkv {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Families with one metric each.
class Families {
 public:
  Families(const std::string& device, const DeviceUsage& usage)
      : device_(device), usage_(usage) {}

  void AddGauge(const char* name, const char* help,
                absl::FunctionRef<double(const DeviceUsage&)> value_of) {
    Add(name, help, MetricType::Gauge,
        [&](ClientMetric& metric) { metric.gauge.value = value_of(usage_); });
  }

  // A sum of seconds with its count, without quantiles.
  void AddSum(
      const char* name, const char* help,
      absl::FunctionRef<std::pair<uint64_t, absl::Duration>(const BatchUsage&)>
          sum_of) {
    Add(name, help, MetricType::Summary, [&](ClientMetric& metric) {
      const auto [count, sum] = sum_of(usage_.batches);
      metric.summary.sample_count = count;
      metric.summary.sample_sum = absl::ToDoubleSeconds(sum);
    });
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  void Add(const char* name, const char* help, MetricType type,
           absl::FunctionRef<void(ClientMetric&)> fill) {
    MetricFamily& family = families_.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"device", device_}};
    fill(metric);
  }

  const std::string& device_;
  const DeviceUsage& usage_;
  std::vector<MetricFamily> families_;
};

}  // namespace

std::vector<MetricFamily> DeviceCollectable::Collect() const {
  if (!usage_) return {};
  const DeviceUsage now = usage_();
  using Usage = const DeviceUsage&;
  using Batches = const BatchUsage&;
  Families families(name_, now);
  families.AddGauge("tensorkv_device_memory_used_bytes",
                    "Device memory in use.",
                    [](Usage usage) { return usage.used_bytes; });
  families.AddGauge("tensorkv_device_memory_quota_bytes",
                    "Device memory that may be in use.",
                    [](Usage usage) { return usage.quota_bytes; });
  families.AddGauge("tensorkv_staging_slots_in_use",
                    "Pinned slots that copies pass through now.",
                    [](Usage usage) { return usage.num_staging_slots_in_use; });
  families.AddGauge("tensorkv_staging_slots", "Pinned slots that there are.",
                    [](Usage usage) { return usage.num_staging_slots; });
  families.AddGauge("tensorkv_pinned_memory_bytes",
                    "Page-locked memory for tensors that come and go.",
                    [](Usage usage) { return usage.pinned_bytes; });
  families.AddGauge("tensorkv_pinned_memory_used_bytes",
                    "What of it tensors have.",
                    [](Usage usage) { return usage.pinned_bytes_in_use; });
  families.AddSum("tensorkv_device_queue_seconds",
                  "How long calls have waited for their batch of updates.",
                  [](Batches batches) {
                    return std::pair(batches.num_calls, batches.queued);
                  });
  families.AddSum("tensorkv_device_batch_seconds",
                  "How long batches of updates have taken on the device.",
                  [](Batches batches) {
                    return std::pair(batches.num_batches, batches.running);
                  });
  return families.Take();
}

}  // namespace tensorkv
