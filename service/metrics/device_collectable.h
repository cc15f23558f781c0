// Metrics of what a device has in use.

#ifndef TENSORKV_SERVICE_METRICS_DEVICE_COLLECTABLE_H_
#define TENSORKV_SERVICE_METRICS_DEVICE_COLLECTABLE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device_usage.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace tensorkv {

// Reads the device's usage at every scrape; shows nothing if `usage` is null.
// Thread-safe.
//
//   tensorkv_device_memory_used_bytes     device memory in use
//   tensorkv_device_memory_quota_bytes    how much may be
//   tensorkv_staging_slots_in_use         slots that copies pass through
//   tensorkv_staging_slots
//   tensorkv_pinned_memory_bytes          page-locked memory for tensors
//   tensorkv_pinned_memory_used_bytes
//   tensorkv_device_queue_seconds         sum and count of the calls' waits for
//                                         their batch of updates
//   tensorkv_device_batch_seconds         sum and count of the batches' times
//
// label: device. Calls per batch are the quotient of the two counts.
class DeviceCollectable final : public prometheus::Collectable {
 public:
  // `usage` may be null, and is called at every scrape: the device must outlive
  // this object.
  DeviceCollectable(std::string name, std::function<DeviceUsage()> usage)
      : name_(std::move(name)), usage_(std::move(usage)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string name_;
  const std::function<DeviceUsage()> usage_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_DEVICE_COLLECTABLE_H_
