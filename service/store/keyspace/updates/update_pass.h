// One fused pass over many keys: new = rule(stored, sum, state).

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_PASS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_PASS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/device_work.h"
#include "service/store/keyspace/rounds/weighted_sum.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/updates/simple_updates.h"
#include "service/store/memory_budgets.h"

namespace tensorkv {

// Takes updates of some keys, runs them as one batch, publishes the values.
// Used by one thread at a time: updates are added, and Complete is called, with
// the namespace's mutex held, Run or Start without it; then the pass is
// destroyed, without it, which frees what was consumed.
//
// A pass of 10,000 small tensors allocates a few arrays, nothing per key.
class UpdatePass {
 public:
  // A key's update from its addition to Complete.
  struct Item {
    RefPtr<StoredKey> key;
    // Rule and call are kept by the pass. The call is null in sync mode.
    const UpdateRule* rule = nullptr;
    QueuedCall* call = nullptr;
    RefPtr<RuleState> rule_state;
    // Not null: nothing is updated.
    RefPtr<KeyAccess> access;
    SharedMultipliers multipliers;
    uint64_t update_count = 0;
    uint64_t revision = 0;  // as PendingUpdate::revision
    Step round = 0;
    // Its places in the pass's arrays.
    uint32_t first_slot = 0;
    uint32_t num_slots = 0;
    // Says what TensorUpdate says.
    uint32_t num_averaged = 0;
    uint32_t first_result = 0;
    uint32_t num_results = 0;
    // The present value, which only this update may replace.
    MutableTensorView stored;
    // Where the new value goes, unless it is written in place; null until Run
    // has allocated or adopted it. After Complete, the old value.
    RefPtr<Buffer> target;
    bool is_in_place = false;
    // True if the target is counted as retained, as snapshots have the value.
    bool is_retained = false;
    // True if the only slot's buffer becomes the value as it is.
    bool adopts = false;
    // True if some of the slots bring rows.
    bool is_of_rows = false;
    // True if weights bear on the update; then Run has `average` made of the
    // rule in its place.
    bool is_weighted = false;
    std::unique_ptr<const UpdateRule> weighted_average;
    // The weight of the update, and RuleState::total_weight before it.
    double weight = 1;
    double total_weight = 0;
    bool must_fill_states = false;
    bool must_fill_master = false;
    absl::Status status;
  };

  // Both outlive the pass. Tensors that `memory` counts as contributions may
  // become values instead of being copied.
  UpdatePass(Backend* device, const NamespaceMemory* memory)
      : device_(*device), memory_(*memory) {}

  // Allocates memory for so many updates of one tensor each.
  void Reserve(size_t num_updates);

  // Adds an update of `key`, which then is_updating.
  // REQUIRES: no other update of the key runs.
  void Add(StoredKey* key, PendingUpdate update);

  // Adds the first pending update of `key`. REQUIRES: key->has_pending().
  void AddPending(StoredKey* key);

  // Updates of the simplest kind, which are added there. Run runs them too.
  SimpleUpdates& simple() { return simple_; }
  const SimpleUpdates& simple() const { return simple_; }

  // Adds an update piece by piece: Begin, then slots (at least one) and results
  // of `call`, then End. Its reservations come by AddReservations.
  void Begin(StoredKey* key, const RefPtr<QueuedCall>& call);
  void AddSlot(Slot slot) { slots_.push_back(std::move(slot)); }
  void AddResult(uint32_t result) { results_.push_back(result); }
  // `has_reservation` says whether they have some for another value of the key.
  // Those that have none reserve it here if they need it, and fail if they
  // cannot.
  void End(bool has_reservation = true);
  void AddReservations(Reservation tensor_reservation, Reservation overhead,
                       Reservation value_reservation);
  // Sets the copies to the device that are made before the updates.
  void SetUploads(Uploads uploads) { uploads_ = std::move(uploads); }

  // Computes the new values. StatusOf tells what became of each.
  void Run();

  // Returns whether the device can do all of it without a thread that waits.
  bool CanStart() const {
    return !device_.is_host() && !has_rows_ && num_accesses_ == 0 &&
           num_weighted_ == 0;
  }
  // Runs the updates as Run does, and calls `done` when the values are there:
  // on any thread, maybe before this returns; then the pass may go. REQUIRES:
  // CanStart().
  void Start(absl::AnyInvocable<void() &&> done);

  // Returns how the item's update has ended: with the device's error, if that
  // failed, or with its own. Then the value has not changed. Accesses that use
  // no states do not depend on the pass's updates, which are of other keys.
  // REQUIRES: Run has returned, or Start has called `done`.
  const absl::Status& StatusOf(const Item& item) const {
    if (!item.status.ok()) return item.status;
    return IsIndependent(item) ? item.access->status() : status_;
  }

  // Ends the update, or the access. If `status`, the item's, is OK, an update's
  // new value is its key's, with the next version, above `restored_versions`;
  // else what it has changed is undone.
  static void Complete(Item& item, const absl::Status& status,
                       Version restored_versions);

  bool empty() const { return items_.empty() && simple_.updates().empty(); }
  // Returns how many bytes Run reads and writes, times what the rules compute
  // of them.
  uint64_t work_bytes() const { return work_bytes_ + simple_.work_bytes(); }
  absl::Span<Item> items() { return absl::MakeSpan(items_); }
  // Returns which results of its call an update produces.
  absl::Span<const uint32_t> ResultsOf(const Item& item) const {
    return absl::MakeConstSpan(results_).subspan(item.first_result,
                                                 item.num_results);
  }

 private:
  // Takes back what End has changed of the key, as its update has failed.
  static void Undo(const Item& item);
  // Has the item use its key's states, and fill those that are new.
  void TakeStates(Item& item);
  // Adds what the item's contributions weigh to the weights of the key's mean.
  void TakeWeights(Item& item);
  // Return what the update adds to work_bytes, without the states that must be
  // filled.
  uint64_t WorkBytesOf(const Item& item) const;
  uint64_t WorkBytesOfRows(const Item& item) const;
  // Returns whether the buffer of the only slot can become the value.
  bool CanAdopt(const Item& item) const;
  void Adopt(Item& item);
  // The updates of all items, and what they refer to.
  struct Batch {
    std::vector<TensorUpdate> updates;
    std::vector<TensorView> slots;
    std::vector<const Packing*> packings;  // of the slots
    std::vector<MutableTensorView> states;
    // States that are new.
    std::vector<MutableTensorView> zeros;
  };

  // Returns whether the item is an access for which all is there, whatever
  // became of the updates, if they have failed.
  bool IsIndependent(const Item& item) const {
    return item.access && (status_.ok() || !item.access->uses_states());
  }
  void RunUpdates();
  // Does all that can fail for want of memory.
  absl::Status Prepare();
  absl::Status AllocateTargets();
  void FillStates();
  absl::Status FillMasters();
  // Makes the rules and sums of the items that are weighted.
  void PrepareWeighted();
  // Returns the slot of a weighted item, which is empty where its contributions
  // are to be summed first; these are added to `sums`.
  absl::StatusOr<Slot> PrepareWeighted(Item& item, WeightedSums& sums) const;
  // Returns where the sum of the item's contributions goes.
  absl::StatusOr<Slot> AddSum(const Item& item, WeightedSums& sums) const;
  void MakeBatch();
  void RunAccesses();
  // Makes the copies of all accesses that run as one; they fail together.
  void RunCopies();
  // Returns the update as backends take it, but for slots and states.
  static TensorUpdate UpdateOf(const Item& item);
  absl::Span<const Slot> SlotsOf(const Item& item) const {
    return absl::MakeConstSpan(slots_).subspan(item.first_slot, item.num_slots);
  }
  // Updates of rows reserve nothing for a new value, which they need only while
  // somebody reads the present one. Nor does what has become a tensor since:
  // the sum of a round that rows have opened.
  void ReserveForCopy(Item& item);
  // Adds to the batch, if the rows of an item go elsewhere, a copy of the whole
  // value to there.
  void AddCopy(const Item& item);
  // Returns the uploads and the batch as a plan for the device.
  Plan TakePlan();
  void RunBatch();
  // These follow the batch.
  void RunRows();
  absl::Status UpdateRows(const Item& item) const;
  // These give memory that is counted as contributions.
  // Errors: ResourceExhausted.
  absl::StatusOr<RefPtr<Buffer>> Allocate(uint64_t bytes) const;
  absl::StatusOr<RefPtr<Buffer>> ZerosFor(const Item& item) const;

  Backend& device_;
  const NamespaceMemory& memory_;
  // The reservations of all the updates, the last one of retained values.
  Reservation tensor_reservation_;
  Reservation overhead_;
  Reservation value_reservation_;
  Reservation retained_reservation_;
  Uploads uploads_;
  SimpleUpdates simple_;
  std::vector<Item> items_;
  uint64_t work_bytes_ = 0;
  bool has_rows_ = false;  // any item updates rows
  // Count the state tensors of all items, and the items that are not written in
  // place.
  size_t num_states_ = 0;
  size_t num_targets_ = 0;
  size_t num_adopted_ = 0;
  size_t num_accesses_ = 0;
  size_t num_weighted_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint32_t> results_;
  // Keep what the items point to, without repetition in a row: most items of a
  // pass have the same.
  std::vector<SharedRule> rules_;
  std::vector<RefPtr<QueuedCall>> calls_;
  Batch batch_;
  absl::Status status_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_PASS_H_
