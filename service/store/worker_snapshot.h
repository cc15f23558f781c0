// A worker of a namespace, as a checkpoint has it.

#ifndef TENSORKV_SERVICE_STORE_WORKER_SNAPSHOT_H_
#define TENSORKV_SERVICE_STORE_WORKER_SNAPSHOT_H_

#include <string>

#include "contract/call_fields.h"

namespace tensorkv {

// What a group kept of one rank when it was saved.
struct WorkerSnapshot {
  // Empty, and the epoch 0, if nobody had joined with that rank.
  std::string name;
  Worker worker;
  bool has_left = false;
  // The last step that it has contributed to.
  Step step = 0;
  // Steps below this do without the worker.
  Step first_step = 0;
  // When it joined, or has left, in the order of all that do.
  uint64_t order = 0;
  // True if a worker of another server has said, as it left, that its last step
  // there was `step`.
  bool has_told_step = false;
  // True if a restore has lost some of what the rank had contributed to `step`.
  bool repeats_step = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_WORKER_SNAPSHOT_H_
