// Keeps what the steps of a namespace were.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEP_RECORDS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEP_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "contract/reason.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/record_memory.h"
#include "service/store/keyspace/rounds/step_record.h"
#include "service/store/keyspace/rounds/steps_to_repush.h"

namespace tensorkv {

class WorkerGroup;

// Records what the rounds and pushes of a sync namespace tell of its steps, as
// step.proto explains it. Guarded by the namespace's mutex.
//
// A round that closes with the contributions that another one of its step has
// had adds to a count, and allocates nothing. A list of contributions, too, is
// that of the record before where it is the same. The memory of all records is
// bounded: older ones are forgotten for it, and then the one for which there is
// none.
class StepRecords {
 public:
  static constexpr size_t kMaxSteps = 128;
  // Bound what one record has of each.
  static constexpr size_t kMaxLists = 16;
  static constexpr size_t kMaxFailures = 16;
  static constexpr size_t kMaxKeys = 16;
  static constexpr uint64_t kMaxBytes = 4 << 20;

  // Says where a record has the contributions of a round that has closed.
  using ListNumber = uint16_t;
  static constexpr ListNumber kInNoList = UINT16_MAX;
  static constexpr ListNumber kUnrecorded = UINT16_MAX - 1;

  // Begins to record; until then, nothing is. `account` counts the records.
  // `workers` outlives this. `has_weights` says that contributions weigh.
  void Begin(RefPtr<BudgetAccount> account, const WorkerGroup* workers,
             bool has_weights);
  bool has_weights() const { return has_weights_; }

  // Returns where to say what a round has that closes, for RoundClosed: it has
  // nothing yet, but memory of rounds before.
  RoundContributions& StartRound();
  // Records that a round of `key` has closed with what StartRound was given.
  ListNumber RoundClosed(Step step, absl::string_view key);
  // Takes that back: its update could not be made.
  void RoundUndone(Step step, absl::string_view key, ListNumber list);
  // Records that a round of `key` has failed, to which the ranks that `came`
  // returns had contributed.
  void RoundFailed(Step step, absl::string_view key,
                   const RoundFailurePtr& failure,
                   absl::FunctionRef<std::vector<uint32_t>()> came);

  // Records what has become of a late contribution to a key.
  enum class LateFate {
    kCarried,      // it waits for a round
    kTaken,        // a round has taken it
    kDropped,      // none will
    kTakenInVain,  // it goes with the round that had taken it
  };
  void LateContribution(Step step, uint32_t rank, LateFate fate);
  // Records that a push was refused, if it is for a reason that is recorded.
  void PushRefused(Step step, uint32_t rank, Reason reason);
  // Records what the gradient guard has found in a push.
  void PushGuarded(Step step, uint32_t rank, const GuardEffects& effects);

  // Count the keys that have had closed rounds. If the last one of them goes,
  // steps may begin again: once something of a step is recorded that is not
  // above all that there are, those are forgotten.
  void AddKey() { ++num_keys_; }
  void RemoveKey() { has_ended_ |= --num_keys_ == 0; }

  // Returns the record of the newest of the steps from `first` to `last`, as it
  // is now; null if there is none.
  StepRecordPtr Newest(Step first, Step last) const;
  // Returns the highest step whose record was forgotten, or 0.
  Step last_forgotten() const { return last_forgotten_; }
  size_t num_records() const { return records_.size(); }

 private:
  struct CountedRecord {
    RefPtr<SharedStepRecord> shared;
    CountedBytes bytes;

    StepRecord& record() { return shared->record; }
  };
  using Records = std::map<Step, CountedRecord>;

  // Returns the record of the step, to be changed, which is made if need be;
  // null where it was, or has to be, forgotten.
  CountedRecord* At(Step step);
  // Returns whether no step from there on has been recorded.
  bool IsAboveAll(Step step) const;
  // Returns what to count of that worker, or null.
  WorkerOfStep* WorkerAt(Step step, uint32_t rank);
  // Returns the number of the list with what StartRound was given, which is
  // added if need be and if it may. Nothing without memory.
  std::optional<ListNumber> ListIn(CountedRecord& counted);
  // Returns a list that is to be added: the first one of another record, if it
  // is the same. Null without memory.
  ContributionsPtr NewList(CountedRecord& counted);
  // Records one more round that has failed so. Returns false without memory.
  bool AddFailure(CountedRecord& counted, absl::string_view key,
                  const RoundFailurePtr& failure,
                  absl::FunctionRef<std::vector<uint32_t>()> came);
  // Have the record name the workers as they are now, and a key. Return false
  // without memory.
  bool NameWorkers(CountedRecord& counted);
  bool NameKey(CountedRecord& counted, absl::string_view key,
               std::vector<std::string>& keys);

  // Reserves memory for the record of `step`, and forgets older ones for it.
  std::optional<CountedBytes> Reserve(Step step, uint64_t bytes);
  // Lets go of what no record has any more. Returns whether there was any.
  bool DropUnused();
  bool ReserveIn(CountedRecord& counted, uint64_t bytes);
  void Forget(Records::iterator record);

  const WorkerGroup* workers_ = nullptr;
  bool has_weights_ = false;
  std::optional<RecordMemory> memory_;
  Records records_;
  Step last_forgotten_ = 0;
  uint64_t num_keys_ = 0;
  bool has_ended_ = false;
  RoundContributions started_;
  // The list that a record got last as its first, and what workers are called.
  ContributionsPtr last_list_;
  WorkerNamesPtr names_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEP_RECORDS_H_
