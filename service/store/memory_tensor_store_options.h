// The options of a store in memory.

#ifndef TENSORKV_SERVICE_STORE_MEMORY_TENSOR_STORE_OPTIONS_H_
#define TENSORKV_SERVICE_STORE_MEMORY_TENSOR_STORE_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "base/task_pool.h"
#include "service/store/round_exchange.h"
#include "service/store/store_observer.h"

namespace tensorkv {

struct MemoryTensorStoreOptions {
  // Bound on the bytes of the host's memory that all namespaces take together.
  uint64_t budget_bytes = uint64_t{1} << 32;
  // This bounds the device's memory, unless the device is the host.
  uint64_t device_budget_bytes = 0;
  // How much of the host's memory snapshots that are being taken may need
  // besides what is free of the budget.
  uint64_t max_retained_bytes = uint64_t{1} << 28;
  // How much of that deltas may take, as long as neither needs it. None by
  // default: an eighth of the budget.
  std::optional<uint64_t> max_delta_bytes;
  // Bound on every wait, whatever the caller's deadline.
  absl::Duration max_wait = absl::Minutes(5);
  // Bounds on the leases of workers.
  absl::Duration min_lease = absl::Milliseconds(100);
  absl::Duration max_lease = absl::Hours(1);
  // Bound on the entries of one call.
  uint32_t max_entries = 100000;
  uint32_t max_namespaces = 1024;
  // The uid of the namespace "default" from the start on; 0: a new one.
  uint64_t default_uid = 0;
  // Hears what happens, and outlives the store; may be null.
  StoreObserver* observer = nullptr;
  // Makes sums of mirrored namespaces with other servers, and outlives the
  // store; null: the store has none of them.
  RoundExchange* exchange = nullptr;
  // Runs what takes long; null: threads of the store's own.
  std::shared_ptr<TaskRunner> pool = nullptr;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_MEMORY_TENSOR_STORE_OPTIONS_H_
