// Holds what is recorded of one step.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEP_RECORD_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEP_RECORD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "service/store/keyspace/rounds/record_memory.h"
#include "service/store/keyspace/rounds/steps_to_repush.h"
#include "tensorkv/v1/step.pb.h"

namespace tensorkv {

// Holds what one worker gave to a round.
struct TakenContribution {
  uint32_t rank = 0;
  bool has_skipped = false;
  // Not 0: it came late, for that step.
  Step carried_from = 0;
  double weight = 1;

  friend bool operator==(const TakenContribution&,
                         const TakenContribution&) = default;
};

// Holds what a round had when it closed, and which ranks it did without.
struct RoundContributions {
  std::vector<TakenContribution> taken;
  std::vector<uint32_t> missing;

  friend bool operator==(const RoundContributions&,
                         const RoundContributions&) = default;
};

// A value that records share, and those who read them. Immutable.
template <typename Value>
struct Recorded : RefCounted {
  Recorded(Value its_value, CountedBytes its_bytes)
      : value(std::move(its_value)), bytes(std::move(its_bytes)) {}

  const Value value;
  const CountedBytes bytes;
};
using ContributionsPtr = RefPtr<const Recorded<RoundContributions>>;
// These are the names of those who have one, by their ranks.
using WorkerNames = std::vector<std::pair<uint32_t, std::string>>;
using WorkerNamesPtr = RefPtr<const Recorded<WorkerNames>>;

// Says what the gradient guard has done to a push.
struct GuardEffects {
  bool is_refused = false;
  uint64_t num_clipped = 0;
  uint64_t num_skipped = 0;
  double greatest_norm = 0;
};

// Counts what StepWorker of step.proto counts.
struct WorkerOfStep {
  uint64_t late_refused = 0;
  uint64_t late_carried = 0;
  uint64_t late_taken = 0;
  uint64_t late_dropped = 0;
  uint64_t duplicates_refused = 0;
  uint64_t guard_clipped = 0;
  uint64_t guard_skipped = 0;
  uint64_t guard_refused = 0;
  double greatest_norm = 0;
};

// Says of a step what StepRecord of step.proto says.
struct StepRecord {
  struct List {
    ContributionsPtr contributions;
    uint64_t num_keys = 0;
    std::vector<std::string> keys;
  };
  struct Failure {
    RoundFailurePtr failure;
    std::vector<uint32_t> came;
    uint64_t num_rounds = 0;
    std::vector<std::string> keys;
  };

  Step step = 0;
  absl::Time last_end = absl::InfinitePast();
  uint64_t rounds_closed = 0;
  uint64_t rounds_failed = 0;
  std::vector<List> lists;
  uint64_t rounds_unlisted = 0;
  std::vector<Failure> failures;
  uint64_t failures_unlisted = 0;
  absl::btree_map<uint32_t, WorkerOfStep> workers;
  WorkerNamesPtr names;
};

// A record that those who read it share with the records of the namespace.
struct SharedStepRecord : RefCounted {
  explicit SharedStepRecord(StepRecord its_record)
      : record(std::move(its_record)) {}

  StepRecord record;
};
using StepRecordPtr = RefPtr<const SharedStepRecord>;

// Returns the message. `has_weights` says that contributions weigh.
v1::StepRecord ToProto(const StepRecord& record, bool has_weights);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEP_RECORD_H_
