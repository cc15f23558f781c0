#include "service/server/engine.h"

#include <algorithm>
#include <thread>

#include "absl/random/random.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/server/memory_size.h"

namespace tensorkv {
namespace {

int ThreadsOf(const ServerOptions& options) {
  if (options.num_threads > 0) return options.num_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// What is left is for messages under way and everything else.
uint64_t DefaultBudgetBytes() { return MemorySizeBytes() / 5 * 4; }

MemoryTensorStoreOptions StoreOptionsOf(const ServerOptions& options) {
  return {.budget_bytes = options.budget_bytes > 0 ? options.budget_bytes
                                                   : DefaultBudgetBytes(),
          .max_wait = options.max_wait,
          .first_epoch =
              absl::Uniform<uint64_t>(absl::BitGen(), 1, uint64_t{1} << 62),
          .max_entries = options.max_entries};
}

}  // namespace

Engine::Engine(const ServerOptions& options, prometheus::Registry* registry)
    : backend_(std::make_unique<CpuBackend>(ThreadsOf(options)), &alarms_,
               registry),
      store_(StoreOptionsOf(options), &backend_, &alarms_),
      metered_store_(&store_, &alarms_, registry),
      collectable_(&store_) {}

std::vector<std::string> Engine::devices() const {
  return {std::string(backend_.name())};
}

}  // namespace tensorkv
