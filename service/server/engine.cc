#include "service/server/engine.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "service/server/memory_size.h"

namespace tensorkv {
namespace {

// What is left is for messages under way and everything else. Tensors arrive
// and leave in host memory, so that bounds the budget of a device too.
uint64_t DefaultBudgetBytes(uint64_t device_bytes) {
  return std::min(device_bytes, MemorySizeBytes()) / 5 * 4;
}

MemoryTensorStoreOptions StoreOptionsOf(const ServerOptions& options,
                                        const OpenedDevice& device) {
  return {.budget_bytes = options.budget_bytes > 0
                              ? options.budget_bytes
                              : DefaultBudgetBytes(device.memory_bytes),
          .max_wait = options.max_wait,
          .first_epoch =
              absl::Uniform<uint64_t>(absl::BitGen(), 1, uint64_t{1} << 62),
          .max_entries = options.max_entries};
}

}  // namespace

Engine::Engine(const ServerOptions& options, OpenedDevice device,
               prometheus::Registry* registry)
    : backend_(std::move(device.backend), &alarms_, registry),
      store_(StoreOptionsOf(options, device), &backend_, &alarms_),
      metered_store_(&store_, &alarms_, registry),
      collectable_(&store_),
      device_collectable_(std::string(backend_.name()),
                          std::move(device.usage)) {}

// What is left of the device, a reader's copy say, may outlive this: it tells
// nobody any more, and what it has told is not on its way.
Engine::~Engine() {
  backend_.health().SetListener(nullptr);
  alarms_.Stop();
}

void Engine::OnFailure(DeviceHealth::Listener listener) {
  backend_.health().SetListener(
      [this, listener = std::move(listener)](const absl::Status& status) {
        // Not here: whoever notices may hold locks of the store.
        alarms_.Schedule(alarms_.Now(), [this, listener, status] {
          store_.EndWaits(status);
          listener(status);
        });
      });
}

std::vector<std::string> Engine::devices() const {
  return {std::string(backend_.name())};
}

}  // namespace tensorkv
