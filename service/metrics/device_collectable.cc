#include "service/metrics/device_collectable.h"

#include <cstdint>

#include "absl/time/time.h"
#include "service/metrics/readings.h"

namespace tensorkv {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::vector<MetricFamily> DeviceCollectable::Collect() const {
  if (!usage_) return {};
  const DeviceUsage now = usage_();
  const auto gauge = [&](const char* name, const char* help, double value) {
    MetricFamily family{name, help, MetricType::Gauge, {}};
    AddMetric(value, {{"device", name_}}, family);
    return family;
  };
  // A sum of seconds with its count, without quantiles.
  const auto sum = [&](const char* name, const char* help, uint64_t count,
                       absl::Duration sum) {
    ClientMetric metric;
    metric.label = {{"device", name_}};
    metric.summary.sample_count = count;
    metric.summary.sample_sum = absl::ToDoubleSeconds(sum);
    return MetricFamily{name, help, MetricType::Summary, {metric}};
  };
  return {
      gauge("tensorkv_device_memory_used_bytes", "Device memory in use.",
            now.used_bytes),
      gauge("tensorkv_device_memory_quota_bytes",
            "Device memory that may be in use.", now.quota_bytes),
      gauge("tensorkv_staging_slots_in_use",
            "Pinned slots that copies pass through now.",
            now.num_staging_slots_in_use),
      gauge("tensorkv_staging_slots", "Pinned slots that there are.",
            now.num_staging_slots),
      gauge("tensorkv_pinned_memory_bytes",
            "Page-locked memory for tensors that come and go.",
            now.pinned_bytes),
      gauge("tensorkv_pinned_memory_used_bytes", "What of it tensors have.",
            now.pinned_bytes_in_use),
      sum("tensorkv_device_queue_seconds",
          "How long calls have waited for their batch of updates.",
          now.batches.num_calls, now.batches.queued),
      sum("tensorkv_device_batch_seconds",
          "How long batches of updates have taken on the device.",
          now.batches.num_batches, now.batches.running),
  };
}

}  // namespace tensorkv
