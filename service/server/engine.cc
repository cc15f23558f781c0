#include "service/server/engine.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "service/server/memory_size.h"

namespace tensorkv {
namespace {

static_assert(kMaxGpus <= DeviceSet::kMaxDevices);

// What is left is for messages under way and everything else.
uint64_t DefaultBudgetBytes() { return MemorySizeBytes() / 5 * 4; }

// What is left is for the tables of updates and of small copies, and for what
// rounding up to what the device allocates takes.
uint64_t DefaultBudgetBytes(const OpenedDevice& gpu) {
  return gpu.memory_bytes / 10 * 9;
}

// No more than there is: keys are placed by what is free of the budgets.
std::vector<uint64_t> DeviceBudgets(const ServerOptions& options,
                                    const std::vector<OpenedDevice>& devices) {
  std::vector<uint64_t> budgets;
  for (const OpenedDevice& device : devices) {
    budgets.push_back(
        options.device_budget_bytes > 0
            ? std::min(options.device_budget_bytes, device.memory_bytes)
            : DefaultBudgetBytes(device));
  }
  return budgets;
}

MemoryTensorStoreOptions StoreOptionsOf(
    const ServerOptions& options, const std::vector<OpenedDevice>& devices,
    StoreObserver* observer, RoundExchange* exchange) {
  return {.budget_bytes = options.budget_bytes > 0 ? options.budget_bytes
                                                   : DefaultBudgetBytes(),
          .device_budget_bytes = DeviceBudgets(options, devices),
          .max_wait = options.max_wait,
          .first_epoch =
              absl::Uniform<uint64_t>(absl::BitGen(), 1, uint64_t{1} << 62),
          .observer = observer,
          .exchange = exchange};
}

std::vector<DeviceCollectable::Device> UsagesOf(
    std::vector<OpenedDevice> devices, const std::vector<std::string>& names) {
  std::vector<DeviceCollectable::Device> usages;
  for (size_t i = 0; i < devices.size(); ++i) {
    usages.push_back({names[i], std::move(devices[i].usage)});
  }
  return usages;
}

}  // namespace

Engine::Engine(const ServerOptions& options, std::vector<OpenedDevice> devices,
               EventLog::Sink log, prometheus::Registry* registry,
               RoundExchange* exchange)
    : event_log_(&alarms_, std::move(log)),
      backends_(Metered(devices, &alarms_, registry)),
      store_(StoreOptionsOf(options, devices, &event_log_, exchange),
             backends(), &alarms_),
      metered_store_(&store_, &alarms_, registry),
      collectable_(&store_),
      device_collectable_(UsagesOf(std::move(devices), this->devices())) {}

// What is left of the device, a reader's copy say, may outlive this: it tells
// nobody any more, and what it has told is not on its way.
Engine::~Engine() {
  for (const auto& backend : backends_) backend->health().SetListener(nullptr);
  Stop();
}

void Engine::Stop() {
  store_.Stop();
  alarms_.Stop();
}

void Engine::OnFailure(DeviceHealth::Listener listener) {
  for (const auto& backend : backends_) {
    backend->health().SetListener([this, listener](const absl::Status& status) {
      // Not here: whoever notices may hold locks of the store.
      alarms_.Schedule(alarms_.Now(), [this, listener, status] {
        store_.EndWaits(status);
        listener(status);
      });
    });
  }
}

absl::Status Engine::health() {
  absl::Status status;
  for (const auto& backend : backends_) {
    status.Update(backend->health().status());
  }
  return status;
}

Engine::Backends Engine::Metered(std::vector<OpenedDevice>& devices,
                                 const Alarms* alarms,
                                 prometheus::Registry* registry) {
  Backends backends;
  for (OpenedDevice& device : devices) {
    backends.push_back(std::make_unique<MeteredBackend>(
        std::move(device.backend), alarms, registry));
  }
  return backends;
}

std::vector<Backend*> Engine::backends() const {
  std::vector<Backend*> backends;
  for (const auto& backend : backends_) backends.push_back(backend.get());
  return backends;
}

std::vector<Backend*> Engine::gpus() const {
  std::vector<Backend*> gpus;
  for (const auto& backend : backends_) {
    if (!backend->is_host()) gpus.push_back(backend.get());
  }
  return gpus;
}

std::vector<std::string> Engine::devices() const {
  std::vector<std::string> names;
  for (const auto& backend : backends_) names.emplace_back(backend->name());
  return names;
}

}  // namespace tensorkv
