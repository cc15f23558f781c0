// What the namespaces of a server share.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_ENVIRONMENT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_ENVIRONMENT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/task_pool.h"
#include "service/store/device_set.h"
#include "service/store/memory_budgets.h"
#include "service/store/store_observer.h"

namespace tensorkv {

// What namespaces share, and what outlives them all.
struct NamespaceEnvironment {
  const DeviceSet* devices = nullptr;
  Alarms* alarms = nullptr;
  // Runs what takes long, by namespace.
  std::shared_ptr<TaskPool> pool;
  const ServerBudgets* budgets = nullptr;
  // Gives every worker of the server an epoch of its own; never 0.
  std::atomic<uint64_t>* next_epoch = nullptr;
  // Hears what happens; may be null.
  StoreObserver* observer = nullptr;
  absl::Duration max_wait;
  absl::Duration min_lease;
  absl::Duration max_lease;
  uint32_t max_entries = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_ENVIRONMENT_H_
