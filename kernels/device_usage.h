// What a device has done and has in use, for monitoring.

#ifndef TENSORKV_KERNELS_DEVICE_USAGE_H_
#define TENSORKV_KERNELS_DEVICE_USAGE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace tensorkv {

// Batches of updates that went to a device together, since it was opened.
struct BatchUsage {
  // The batches that have ended, and the calls that were joined in them.
  uint64_t num_batches = 0;
  uint64_t num_calls = 0;
  // How long these calls waited for their batch to start, added up.
  absl::Duration queued;
  // How long the batches took, from the start of the submission until the host
  // saw their end.
  absl::Duration running;
};

// What is in use now, and all batches so far.
struct DeviceUsage {
  // The device's memory that is used, which the quota bounds.
  uint64_t used_bytes = 0;
  uint64_t quota_bytes = 0;
  // Pinned slots that copies pass through, of both directions.
  int num_staging_slots = 0;
  int num_staging_slots_in_use = 0;
  // Page-locked memory for tensors of calls, and how much of it they use.
  uint64_t pinned_bytes = 0;
  uint64_t pinned_bytes_in_use = 0;
  BatchUsage batches;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_DEVICE_USAGE_H_
