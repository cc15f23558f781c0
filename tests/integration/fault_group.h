// A group of worker processes that die and come back.

#ifndef TENSORKV_TESTS_INTEGRATION_FAULT_GROUP_H_
#define TENSORKV_TESTS_INTEGRATION_FAULT_GROUP_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "tensor/requests.h"

namespace tensorkv::testing {

// A line that a worker wrote: see fault_worker.cc.
struct FaultCall {
  uint32_t slot = 0;
  std::string verb;
  Step step = 0;
  absl::Duration begin;
  absl::Duration end;
  absl::StatusCode code = absl::StatusCode::kOk;
  int64_t value = 0;
  Version version = 0;
  std::string message;
};

struct FaultDeath {
  uint32_t slot = 0;
  absl::Duration when;
};

struct FaultGroupOptions {
  std::string target;
  std::string name_space;
  uint32_t num_workers = 3;
  absl::Duration lease;
  Step num_steps = 0;
  // Deaths after which nobody has to die.
  int num_kills = 0;
  uint64_t seed = 0;
};

// Runs the workers of a namespace, each slot a process at a time, which kills
// itself at a point that is drawn, and is started again under its name, until
// all have made all steps. Thread-safe.
class FaultGroup {
 public:
  explicit FaultGroup(const FaultGroupOptions& options);

  // Returns when all workers have ended well.
  void Run();

  // After Run: in the order of the slots, and of each slot in order of time.
  const std::vector<FaultCall>& calls() const { return calls_; }
  const std::vector<FaultDeath>& deaths() const { return deaths_; }

 private:
  void RunSlot(uint32_t slot);
  // One life of the worker; whether it ended well.
  bool Live(uint32_t slot, int life);
  std::vector<std::string> DrawArguments(uint32_t slot);
  // What the process that wrote `log` has done.
  void Read(uint32_t slot, const std::string& log);

  const FaultGroupOptions options_;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<FaultCall> calls_;
  std::vector<FaultDeath> deaths_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_FAULT_GROUP_H_
