// The store of a server with everything it works on, measured.

#ifndef TENSORKV_SERVICE_SERVER_ENGINE_H_
#define TENSORKV_SERVICE_SERVER_ENGINE_H_

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
  Alarms& alarms() { return alarms_; }
  EventLog& event_log() { return event_log_; }

  const NamespaceSummaries& summaries() const { return store_; }

  // Returns whether the caller has made that call in that namespace, or is
  // making it.
  bool Knows(absl::string_view name_space, const Caller& caller,
             const CallId& id) const {
    return store_.Knows(name_space, caller, id);
  }

  bool IsMirrored(absl::string_view name_space) const {
    return store_.IsMirrored(name_space);
  }

  // Goes through all locks of the store.
  void Probe() const { store_.Summaries(); }

  // Returns the collectors of the store and its device; the rest of their
  // metrics is in the registry.
  std::vector<const prometheus::Collectable*> collectables() const {
    return {&collectable_, &device_collectable_};
  }

  // OK, or Unavailable with the cause once the device has failed.
  absl::Status health() { return backend_.health().status(); }

  // Has `listener` called with that status, on a thread of the alarms, once the
  // device has failed, when all waiting calls have ended so. At most one.
  void OnFailure(DeviceHealth::Listener listener);

  // Ends all waiting calls with Unavailable. For shutdown.
  void CancelWaits() { store_.CancelWaits(); }
  // Ends the calls that wait now.
  void InterruptWaits(const absl::Status& status) {
    store_.InterruptWaits(status);
  }

  // Runs no task of a call and no alarm from then on: whoever made the call or
  // set the alarm may go. REQUIRES: no call of a client is under way.
  void Stop();

  Backend& device() { return backend_; }
  const ServerBudgets& budgets() const { return store_.budgets(); }

 private:
  SteadyAlarms alarms_;
  EventLog event_log_;
  MeteredBackend backend_;
  MemoryTensorStore store_;
  const StoreCollectable collectable_;
  const DeviceCollectable device_collectable_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_ENGINE_H_
