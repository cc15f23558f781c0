// One fused pass over many keys: new = rule(stored, sum, state).

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_PASS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_PASS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/device_work.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/updates/update_batch.h"
#include "service/store/keyspace/updates/update_item.h"
#include "service/store/memory_budgets.h"

namespace tensorkv {

// Takes updates of some keys, runs them, publishes the values. Used by one
// thread at a time: updates are added, and Complete is called, with the
// namespace's mutex held, Run or Start without it; then the pass is destroyed,
// without it, which frees what was consumed.
//
// A pass of 10,000 small tensors allocates a few arrays, nothing per key: what
// every update has takes a line of the cache, what few have is beside it.
class UpdatePass {
 public:
  using Item = UpdateItem;

  // Both outlive the pass. Tensors that `memory` counts as contributions may
  // become values instead of being copied.
  UpdatePass(Backend* device, const NamespaceMemory* memory)
      : device_(*device), memory_(*memory) {}

  // Reserves memory for so many updates of one tensor each.
  void Reserve(size_t num_updates);

  // Adds an update of `key`, which then is_updating; AddPending the first that
  // it has pending. REQUIRES: no other update of the key runs.
  void Add(StoredKey* key, PendingUpdate update);
  void AddPending(StoredKey* key) { Add(key, key->TakePending()); }
  // Adds an update of the key's revision piece by piece: Begin, then slots (at
  // least one) and results of `call`, then End. Its reservations come by
  // AddReservations.
  void Begin(StoredKey* key, const RefPtr<QueuedCall>& call);
  void AddSlot(Slot slot);
  void AddResult(uint32_t result);
  // `has_reservation` says whether they have some for another value of the key.
  // Those that have none reserve it here if they need it, and fail if they
  // cannot.
  void End(bool has_reservation = true);
  void AddReservations(Reservation tensor_reservation, Reservation overhead,
                       Reservation value_reservation);
  // Adds an update by the only entry that a call has for `key`, without a slot:
  // nearly a quarter less for a push of many small keys (docs/performance.md).
  // False, and nothing has happened, if the entry brings more than a tensor,
  // the key keeps more than a value, or that cannot be written in place.
  // REQUIRES: the entry fits the key.
  bool AddTensor(StoredKey* key, const RefPtr<QueuedCall>& call,
                 const PushEntry& entry, uint32_t result);
  // Sets the copies to the device that are made before the updates.
  void SetUploads(Uploads uploads) { uploads_ = std::move(uploads); }

  // Computes the new values. StatusOf tells what became of each.
  void Run();
  // Returns whether the device can do all of it without a thread that waits.
  bool CanStart() const { return !device_.is_host() && !needs_thread_; }
  // Runs the updates as Run does, and calls `done` when the values are there:
  // on any thread, maybe before this returns; then the pass may go. REQUIRES:
  // CanStart().
  void Start(absl::AnyInvocable<void() &&> done);

  // Returns how the item's update has ended: with the device's error, if that
  // failed, or with its own. Then the value has not changed. Accesses that use
  // no states do not depend on the pass's updates, which are of other keys.
  // REQUIRES: Run has returned, or Start has called `done`.
  const absl::Status& StatusOf(const Item& item) const {
    if (const UpdateExtras* const extras = ExtrasOf(item)) {
      if (IsIndependent(*extras)) return extras->access->status();
      if (extras->access) return status_;
      if (!extras->status.ok()) return extras->status;
    }
    return static_cast<size_t>(&item - items_.data()) < num_run_ ? ok_
                                                                 : status_;
  }

  // Ends the update, or the access. If `status`, the item's, is OK, an update's
  // new value is its key's, with the next version, above `restored_versions`;
  // else what it has changed is undone.
  void Complete(const Item& item, const absl::Status& status,
                Version restored_versions) {
    StoredKey& key = *item.key;
    key.is_updating = false;
    key.value_is_changing = false;
    if (item.extras != Item::kNone || !status.ok()) {
      if (!CompleteRest(item, status)) return;
    }
    key.EndCount(/*is_applied=*/true);
    key.version = key.NextVersion(restored_versions);
  }

  bool empty() const { return items_.empty(); }
  // Returns how many bytes Run reads and writes, times what the rules compute
  // of them.
  uint64_t work_bytes() const { return work_bytes_; }
  absl::Span<const Item> items() const { return items_; }
  // Returns where the items come from, in their order.
  absl::Span<const UpdateOrigin> origins() const { return origins_; }
  // Return what the item has that most lack, and its access, or null: an update
  // that has ended well and is not in place has its former value as the target.
  const UpdateExtras* ExtrasOf(const Item& item) const {
    return item.extras == Item::kNone ? nullptr : &extras_[item.extras];
  }
  KeyAccess* AccessOf(const Item& item) const {
    const UpdateExtras* const extras = ExtrasOf(item);
    return extras == nullptr ? nullptr : extras->access.get();
  }
  // Returns which results of its call an update produces.
  absl::Span<const uint32_t> ResultsOf(const Item& item) const {
    if (item.num_results <= 1) return {&item.result, item.num_results};
    return absl::MakeConstSpan(results_).subspan(item.result, item.num_results);
  }

 private:
  using Extras = UpdateExtras;

  // Returns the item's extras, now there. Invalidates references to others.
  Extras& Extend(Item& item);
  Item& ItemOf(const Extras& extras) { return items_[extras.item]; }
  absl::Span<const TensorView> TensorsOf(const Item& item) const {
    return {&tensors_[item.first_tensor], item.num_tensors};
  }
  absl::Span<const Slot> SlotsOf(const Item& item) const {
    if (item.first_slot == Item::kNone) return {};
    return absl::MakeConstSpan(slots_).subspan(item.first_slot,
                                               item.num_tensors);
  }

  // Ends an access, an update that has failed, or one that has extras; returns
  // whether it has made a value.
  bool CompleteRest(const Item& item, const absl::Status& status);
  // Does what Begin does, for an update of that revision.
  ABSL_ATTRIBUTE_ALWAYS_INLINE inline Item& AddItem(
      StoredKey* key, const RefPtr<QueuedCall>& call, uint64_t revision);
  // Has the last item be an access.
  void EndAccess(RefPtr<KeyAccess> access);
  // Has the item use its key's states, and fill those that are new.
  void TakeStates(Item& item);
  // Has the new value go elsewhere: to the buffer of the only slot, or to one
  // that Run allocates.
  void TakeTarget(Item& item, bool adopts, bool has_reservation);
  // Reserves for a new value now: updates of rows need one only while somebody
  // reads the present one, as does what has become a tensor since, the sum of a
  // round that rows have opened. Where snapshots keep it the memory is theirs.
  void ReserveForCopy(const StoredKey& key, Extras& extras);
  // Returns what pays for a new value.
  Reservation& ReservationFor(const Extras& extras) {
    return extras.is_retained ? retained_reservation_ : value_reservation_;
  }
  // Return what the update adds to work_bytes, without the states that must be
  // filled.
  uint64_t WorkBytesOf(const Item& item) const;
  uint64_t WorkBytesOfRows(const Item& item, uint64_t state_bytes) const;
  // Returns whether the buffer of the only slot can become the value.
  bool CanAdopt(const Item& item) const;
  void Adopt(Extras& extras);
  // Takes back what End has changed of the key, as its update has failed.
  void Undo(const Item& item) const;

  // Returns whether that is an access that can run, also if updates have
  // failed.
  bool IsIndependent(const Extras& extras) const {
    return extras.access && (status_.ok() || !extras.access->uses_states());
  }
  void RunUpdates();
  // Does all that can fail for want of memory.
  absl::Status Prepare();
  absl::Status FillMasters();
  // Makes the batch of the items from number `begin` to before number `end`.
  void MakeBatch(size_t begin, size_t end);
  // Returns uploads and batch as a plan for the device.
  Plan TakePlan();
  absl::Status RunBatch();
  void RunRows();
  absl::Status UpdateRows(const Item& item, const Extras& extras) const;
  void RunAccesses();
  // Makes the copies of all accesses that run as one; they fail together.
  void RunCopies();
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
  std::vector<Item> items_;
  std::vector<Extras> extras_;
  uint64_t work_bytes_ = 0;
  size_t num_states_ = 0;      // of all items
  bool needs_thread_ = false;  // for rows, or an access
  bool adopts_ = false;        // some slot's buffer becomes a value
  // The contributions, as backends take them, and with what else they bring.
  std::vector<TensorView> tensors_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> results_;
  // Keep what the items have, without repetition in a row, as most items of a
  // pass have the same: buffers that are in no slot, rules, calls.
  std::vector<RefPtr<Buffer>> buffers_;
  std::vector<SharedRule> rules_;
  std::vector<UpdateOrigin> origins_;
  uint64_t work_factor_ = 1;  // of the last of rules_
  // States that are new, to be filled before the first batch.
  std::vector<MutableTensorView> zeros_;
  UpdateBatch batch_;
  size_t num_run_ = 0;   // the first items, whose batches have run
  absl::Status status_;  // the first error
  const absl::Status ok_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_PASS_H_
