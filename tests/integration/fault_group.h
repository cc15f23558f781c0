// A group of worker processes that die and come back.

#ifndef TENSORKV_TESTS_INTEGRATION_FAULT_GROUP_H_
#define TENSORKV_TESTS_INTEGRATION_FAULT_GROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv::testing {

// A line that a worker wrote: see fault_worker.cc.
struct FaultCall {
  uint32_t slot = 0;
  std::string verb;
  Step step = 0;
  absl::Duration begin;
  absl::Duration end;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;
  std::string key;
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
  absl::Duration call_timeout = absl::Minutes(1);
  Step num_steps = 0;
  // Deaths after which nobody has to die.
  int num_kills = 0;
  // Who has to die does so in one of so many steps of a life.
  int max_life = 3;
  uint64_t seed = 0;
};

// Runs the workers of a namespace, each slot a process at a time, which kills
// itself at a point that is drawn, and is started again under its name, until
// all have made all steps. A worker that ends otherwise fails the test and ends
// the group: the others would wait for it.
class FaultGroup {
 public:
  explicit FaultGroup(const FaultGroupOptions& options);

  // Returns when all processes have ended.
  void Run();

  // After Run: in the order of the slots, and of each slot in order of time.
  const std::vector<FaultCall>& calls() const { return calls_; }
  const std::vector<FaultDeath>& deaths() const { return deaths_; }

 private:
  void RunSlot(uint32_t slot);
  // One life of the worker; whether it is to have another.
  bool Live(uint32_t slot, int life);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> DrawArguments(uint32_t slot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the process that wrote `log` has done.
  void Read(uint32_t slot, const std::string& log)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FaultGroupOptions options_;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  // The processes that have not been waited for.
  std::set<pid_t> living_ ABSL_GUARDED_BY(mutex_);
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<FaultCall> calls_;
  std::vector<FaultDeath> deaths_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_FAULT_GROUP_H_
