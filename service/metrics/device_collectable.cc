#include "service/metrics/device_collectable.h"

#include "absl/time/time.h"

namespace tensorkv {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily DeviceCollectable::Gauge(const char* name, const char* help,
                                      double value) const {
  ClientMetric metric;
  metric.label = {{"device", device_}};
  metric.gauge.value = value;
  return {name, help, MetricType::Gauge, {metric}};
}

MetricFamily DeviceCollectable::Sum(const char* name, const char* help,
                                    uint64_t count, absl::Duration sum) const {
  ClientMetric metric;
  metric.label = {{"device", device_}};
  metric.summary.sample_count = count;
  metric.summary.sample_sum = absl::ToDoubleSeconds(sum);
  return {name, help, MetricType::Summary, {metric}};
}

std::vector<MetricFamily> DeviceCollectable::Collect() const {
  if (!usage_) return {};
  const DeviceUsage usage = usage_();
  return {
      Gauge("tensorkv_device_memory_used_bytes", "Device memory in use.",
            static_cast<double>(usage.used_bytes)),
      Gauge("tensorkv_device_memory_quota_bytes",
            "Device memory that may be in use.",
            static_cast<double>(usage.quota_bytes)),
      Gauge("tensorkv_staging_slots_in_use",
            "Pinned slots that copies pass through now.",
            usage.num_staging_slots_in_use),
      Gauge("tensorkv_staging_slots", "Pinned slots that there are.",
            usage.num_staging_slots),
      Sum("tensorkv_device_queue_seconds",
          "How long calls have waited for their batch of updates.",
          usage.batches.num_calls, usage.batches.queued),
      Sum("tensorkv_device_batch_seconds",
          "How long batches of updates have taken on the device.",
          usage.batches.num_batches, usage.batches.running),
  };
}

}  // namespace tensorkv
