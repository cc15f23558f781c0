// Holds what snapshots have of one key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_KEPT_KEY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_KEPT_KEY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "service/store/keyspace/rules/rule_bindings.h"
#include "service/store/keyspace/rules/rule_state.h"
#include "service/store/keyspace/snapshots/snapshot_history.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/updates/key_access.h"
#include "service/store/memory_budgets.h"
#include "service/store/snapshot.h"

namespace tensorkv {

class OpenSnapshots;

// Returns a tensor in host memory that `account` counts, its elements yet to
// come. Errors: ResourceExhausted.
absl::StatusOr<Tensor> AllocateOnHost(const RefPtr<BudgetAccount>& account,
                                      DType dtype, const Shape& shape);

// A key as one snapshot or several have it: its value by reference, its states
// as copies. Guarded by the namespace's mutex until it is ready; it never
// changes afterwards.
class KeptKey final : public RefCounted {
 public:
  // Keeps what of the key changes as calls are admitted, as it is now.
  // `account` counts that, and outlives this.
  KeptKey(const StoredKey& key, const RefPtr<BudgetAccount>& account);

  // Keeps the rule, the states and the count of updates that the key has now,
  // whatever it has later. Does nothing the second time.
  void TakeRule(const StoredKey& key);
  // Keeps the value, and the rule as TakeRule does. REQUIRES: all updates that
  // the snapshots have are in it, and none runs.
  void TakeValue(StoredKey& key);

  // Keeps the value, and the states by reference too: then it is ready.
  // REQUIRES: nobody writes the states any more, and what TakeValue does.
  void TakeRemoved(StoredKey& key);
  // Returns whether the states of At are those of the key, on the device.
  bool has_states_on_device() const { return has_states_on_device_; }

  // Allocates memory for the states, and adds their copies. REQUIRES: TakeValue
  // was called. Errors: ResourceExhausted.
  absl::Status AddCopies(const RefPtr<BudgetAccount>& account,
                         std::vector<MemoryCopy>& copies);
  // Returns how many bytes of states are to be copied.
  uint64_t bytes_to_copy() const;

  // Returns the states themselves, which are not kept any more.
  RefPtr<RuleState> ReleaseStates() { return std::move(rule_state_); }

  // Has all be there, or `status` be the reason why not. REQUIRES: the states
  // are released, if there are any to copy.
  void SetReady(const absl::Status& status) {
    rule_state_ = nullptr;
    status_ = status;
    is_ready_ = true;
  }
  bool is_ready() const { return is_ready_; }
  const absl::Status& status() const { return status_; }

  const std::string& name() const { return snapshot_.key; }
  // Returns the key at the revision of one of the snapshots that have it; the
  // value is on the device. REQUIRES: it is ready, and its status is OK.
  KeySnapshot At(uint64_t revision) const;

 private:
  // Keeps which rounds are in the value.
  void TakeRounds(const Rounds& rounds);
  // Calls `visit` with each state that is not new, until that fails.
  using Visit = absl::FunctionRef<absl::Status(absl::string_view name,
                                               DType dtype, const Shape& shape,
                                               const RefPtr<Buffer>& state)>;
  absl::Status ForEachState(Visit visit) const;
  // Adds a copy of one state.
  absl::Status AddCopy(const RefPtr<BudgetAccount>& account,
                       absl::string_view name, DType dtype, const Shape& shape,
                       const Buffer& from, std::vector<MemoryCopy>& copies);

  // Returns how many bytes are kept besides tensors.
  uint64_t OverheadBytes() const;

  const SnapshotHistory<RoundSteps> step_history_;
  const RoundSteps steps_;
  KeySnapshot snapshot_;
  Reservation overhead_;
  // The last step that is in the value.
  Step last_applied_ = UINT64_MAX;
  bool has_rule_ = false;
  bool has_states_on_device_ = false;
  SharedRule rule_;
  RefPtr<RuleState> rule_state_;
  // Say whether rule_state_ had filled states, and a filled master copy, when
  // the value was taken. The mutex guards what they are made of, and the copies
  // run without it.
  bool has_states_ = false;
  bool has_master_ = false;
  bool is_ready_ = false;
  absl::Status status_;
};

using KeptKeyPtr = RefPtr<KeptKey>;

// Copies the states of a key, and takes its value, in the key's queue. The
// other arguments outlive it.
class KeyCopy final : public KeyAccess {
 public:
  KeyCopy(KeptKeyPtr kept, OpenSnapshots* snapshots,
          const NamespaceMemory* memory)
      : kept_(std::move(kept)), snapshots_(*snapshots), memory_(*memory) {}

  bool uses_states() const override { return false; }
  void BeforeRuleChange(const StoredKey& key) override { kept_->TakeRule(key); }
  void Begin(StoredKey& key) override { kept_->TakeValue(key); }
  void AddCopies(std::vector<MemoryCopy>& uploads,
                 std::vector<MemoryCopy>& downloads) override;
  void End(StoredKey& key, const absl::Status& status,
           const UpdateRule& rule) override;
  uint64_t size_bytes() const override { return 2 * kept_->bytes_to_copy(); }

 private:
  const KeptKeyPtr kept_;
  RefPtr<RuleState> copied_;  // stays until it is, and goes without the mutex
  OpenSnapshots& snapshots_;
  const NamespaceMemory& memory_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_KEPT_KEY_H_
