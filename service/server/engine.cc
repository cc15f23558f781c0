#include "service/server/engine.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "contract/placement.h"
#include "service/server/memory_size.h"

namespace tensorkv {
namespace {

// Returns the default budget; the rest is for messages under way and everything
// else.
uint64_t DefaultBudgetBytes() { return MemorySizeBytes() / 5 * 4; }

// Returns the default budget; the rest is for the tables of updates and of
// small copies, and for what the device rounds up.
uint64_t DefaultBudgetBytes(const OpenedDevice& gpu) {
  return gpu.memory_bytes / 10 * 9;
}

uint64_t DeviceBudgetBytes(const ServerOptions& options,
                           const OpenedDevice& device) {
  if (options.device_budget_bytes == 0) return DefaultBudgetBytes(device);
  return std::min(options.device_budget_bytes, device.memory_bytes);
}

MemoryTensorStoreOptions StoreOptionsOf(const ServerOptions& options,
                                        const OpenedDevice& device,
                                        StoreObserver* observer,
                                        RoundExchange* exchange) {
  const uint64_t budget_bytes =
      options.budget_bytes > 0 ? options.budget_bytes : DefaultBudgetBytes();
  return {.budget_bytes = budget_bytes,
          .device_budget_bytes = DeviceBudgetBytes(options, device),
          .max_retained_bytes = options.max_retained_bytes > 0
                                    ? options.max_retained_bytes
                                    : budget_bytes / 16,
          .max_wait = options.max_wait,
          .default_uid =
              options.cluster ? DefaultUidOf(options.cluster->cluster) : 0,
          .observer = observer,
          .exchange = exchange};
}

}  // namespace

Engine::Engine(const ServerOptions& options, OpenedDevice device,
               EventLog::Sink log, prometheus::Registry* registry,
               RoundExchange* exchange)
    : event_log_(&alarms_, std::move(log)),
      backend_(std::move(device.backend), &alarms_, registry),
      store_(StoreOptionsOf(options, device, &event_log_, exchange), &backend_,
             &alarms_),
      collectable_(&store_),
      device_collectable_(std::string(backend_.name()),
                          std::move(device.usage)) {}

// Memory of the device, a reader's copy say, may outlive this: it tells nobody
// any more, and what it has told is not on its way.
Engine::~Engine() {
  backend_.health().SetListener(nullptr);
  Stop();
}

void Engine::Stop() {
  store_.Stop();
  alarms_.Stop();
}

void Engine::SetFailureListener(DeviceHealth::Listener listener) {
  backend_.health().SetListener(
      [this, listener = std::move(listener)](const absl::Status& status) {
        // Not here: whoever notices may hold locks of the store.
        alarms_.Schedule(alarms_.Now(), [this, listener, status] {
          store_.EndWaits(status);
          listener(status);
        });
      });
}

}  // namespace tensorkv
