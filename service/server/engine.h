// The store of a server with everything it works on, measured.

#ifndef TENSORKV_SERVICE_SERVER_ENGINE_H_
#define TENSORKV_SERVICE_SERVER_ENGINE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/alarms.h"
#include "kernels/backend.h"
#include "kernels/device_health.h"
#include "prometheus/registry.h"
#include "service/metrics/device_collectable.h"
#include "service/metrics/metered_backend.h"
#include "service/metrics/store_collectable.h"
#include "service/server/event_log.h"
#include "service/server/open_device.h"
#include "service/server/server_options.h"
#include "service/store/memory_budgets.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/namespace_summary.h"
#include "service/store/snapshot_shares.h"
#include "service/store/staging.h"

namespace tensorkv {

// Alarms, backend, store and their metrics, put together. Thread-safe.
class Engine {
 public:
  // `registry` and `exchange` outlive the engine. `log` takes the lines of the
  // event log.
  Engine(const ServerOptions& options, OpenedDevice device, EventLog::Sink log,
         prometheus::Registry* registry, RoundExchange* exchange);
  ~Engine();

  TensorStore& store() { return store_; }
  NamespaceAdmin& namespaces() { return store_; }
  Staging& staging() { return store_; }
  Snapshots& snapshots() { return store_; }
  PartitionMoves& partition_moves() { return store_; }
  SnapshotShares& snapshot_shares() { return *snapshot_shares_; }
  Alarms& alarms() { return alarms_; }
  EventLog& event_log() { return event_log_; }

  const NamespaceSummaries& summaries() const { return store_; }

  // Returns whether the caller has made that call in that namespace, or is
  // making it.
  bool Knows(absl::string_view name_space, const Caller& caller,
             const CallId& id) const {
    return store_.Knows(name_space, caller, id);
  }

  std::optional<bool> IsMirrored(absl::string_view name_space) const {
    return store_.IsMirrored(name_space);
  }
  // Calls MemoryTensorStore::NameDefault.
  void NameDefault(uint64_t uid) { store_.NameDefault(uid); }

  // Takes each lock of the store once: does not return while one is stuck.
  void Probe() const { store_.Summaries(); }

  // Returns the metrics of the store and its device that are not in the
  // registry. The pointers are good as long as the engine is.
  std::vector<const prometheus::Collectable*> collectables() const {
    return {&collectable_, &device_collectable_};
  }

  // Returns OK, or Unavailable with the cause once the device has failed.
  absl::Status health() { return backend_.health().status(); }

  // Once the device has failed, before now or later, ends all waiting calls
  // with its status, and then calls `listener` with it, on a thread of the
  // alarms. REQUIRES: called once.
  void SetFailureListener(DeviceHealth::Listener listener);

  // Ends all waiting calls with Unavailable, and each call that would wait from
  // now on. For shutdown.
  void CancelWaits() { store_.CancelWaits(); }
  // Ends the calls that wait now with `status`. Later calls may wait.
  void InterruptWaits(const absl::Status& status) {
    store_.InterruptWaits(status);
  }

  // Ends waiting calls, and returns when no task of a call and no alarm runs
  // any more, or will: whoever made the call or set the alarm may go. REQUIRES:
  // no call of a client is under way.
  void Stop();

  Backend& device() { return backend_; }
  const ServerBudgets& budgets() const { return store_.budgets(); }
  uint64_t num_deltas_encoded() const { return store_.num_deltas_encoded(); }

 private:
  SteadyAlarms alarms_;
  EventLog event_log_;
  MeteredBackend backend_;
  MemoryTensorStore store_;
  const std::unique_ptr<SnapshotShares> snapshot_shares_ = store_.OpenShares();
  const StoreCollectable collectable_;
  const DeviceCollectable device_collectable_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_ENGINE_H_
