// Says what a group of workers is.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_WORKER_GROUP_OPTIONS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_WORKER_GROUP_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "contract/namespace_config.h"
#include "service/store/worker_snapshot.h"

namespace tensorkv {

inline constexpr uint32_t kMaxWorkers = 4096;
// Bytes that one rank takes, with its name.
inline constexpr uint64_t kWorkerOverheadBytes = 512;

struct WorkerGroupOptions {
  // Ranks are 0 to max_workers - 1. A group whose bounds differ is elastic.
  uint32_t min_workers = 0;
  uint32_t max_workers = 0;
  OnWorkerLoss on_worker_loss = OnWorkerLoss::kFail;
  absl::Duration min_lease = absl::Milliseconds(100);
  absl::Duration max_lease = absl::Hours(1);
  // True if steps wait for a rank whose worker has left, until it is taken
  // again. REQUIRES: a fixed size, and kFail.
  bool awaits_left = false;
  // True if a worker's steps are its own, whatever others have reached.
  bool counts_alone = false;
  // Returns whether rounds here wait for that rank, rather than another
  // server's; null: for every rank.
  std::function<bool(uint32_t rank)> is_local;
};

// Checks that a group of `max_workers` can have had those workers: their ranks
// rise, below that. Errors: InvalidArgument.
absl::Status CheckRanks(const std::vector<WorkerSnapshot>& workers,
                        uint32_t max_workers);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_WORKER_GROUP_OPTIONS_H_
