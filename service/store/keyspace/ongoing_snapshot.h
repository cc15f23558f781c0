// One moment of the keys of a namespace, taken while they go on changing.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ONGOING_SNAPSHOT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ONGOING_SNAPSHOT_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "service/store/key_fence.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/snapshot.h"

namespace tensorkv {

struct NamespaceState;
class OngoingSnapshot;
class Transaction;

// Returns a tensor in host memory that `account` counts, its elements yet to
// come. Errors: ResourceExhausted.
absl::StatusOr<Tensor> AllocateOnHost(const RefPtr<BudgetAccount>& account,
                                      DType dtype, const Shape& shape);
// A key as the snapshot has it.
struct SnapshotKey {
  KeySnapshot snapshot;  // its value is on the device
  // The key while it has yet to be taken; null afterwards, so that the snapshot
  // does not keep the key.
  RefPtr<StoredKey> key;
  SharedRule rule;
};

// The states of a key that a snapshot copies before the key's next update.
struct StateCopy {
  std::shared_ptr<OngoingSnapshot> ongoing;
  SnapshotKey key;
  RefPtr<RuleState> rule_state;
  bool has_states = false;
  bool has_master = false;

  uint64_t size_bytes() const { return rule_state->size_bytes(); }
};

// The snapshot is of the moment at which it is put into the NamespaceState: it
// has the effects of all that was admitted before, and of nothing that was
// admitted later. Nobody waits for it to be taken as a whole: a key is taken
// when the walk over all keys comes to it, or when it is about to change,
// whichever is first. Guarded by the namespace's mutex.
//
// A value is taken by reference: updates do not write what somebody holds.
// States are updated in place, so they are copied: meanwhile the key
// is_updating, and its next update waits for as long as that copy takes. A key
// with updates ahead, all admitted before the snapshot, is taken after the last
// of them.
//
// Invariants:
//  1. A key that is handled is taken, will be taken after the updates that
//     waiting_ counts, or came after the snapshot.
//  2. A key with copies under way is_updating.
class OngoingSnapshot : public std::enable_shared_from_this<OngoingSnapshot> {
 public:
  // With `fence`, which may be null, it has only the keys that it fences,
  // of the namespace of that name, which outlives it.
  OngoingSnapshot(absl::string_view name_space,
                  std::shared_ptr<const KeyFence::View> fence)
      : name_space_(name_space), fence_(std::move(fence)) {}

  // Is to be called before the key changes: takes it as it is, if the
  // namespace's snapshot has not yet. The key may be is_updating afterwards,
  // until its states are copied. Does nothing if the key was deleted or
  // replaced: the snapshot has no such key.
  static void BeforeChange(Transaction& transaction, StoredKey& key);
  // Is to be called before the key gets another rule, or other states; does
  // what BeforeChange does. A key that waits for its updates is taken with the
  // rule, the count of updates and the states that it has now, as the rules of
  // the snapshot are those of before.
  static void BeforeRuleChange(Transaction& transaction, StoredKey& key);
  // Is to be called for each new key: a snapshot that is under way leaves it
  // out.
  static void AfterCreation(Transaction& transaction, StoredKey& key);
  // Is to be called for a key that was deleted or replaced: the snapshot keeps
  // no more of it than what it has taken.
  static void AfterRemoval(Transaction& transaction, const StoredKey& key);
  // Is to be called when an update of the key has ended and is_updating is
  // cleared: takes a key that has waited for its updates, once the last of them
  // has ended. is_updating may be set afterwards: then Copy runs what is
  // pending.
  static void AfterUpdate(Transaction& transaction, StoredKey& key);
  // Copies the states to the host, then has the pool run the updates that have
  // waited for that. Blocks while it copies. REQUIRES: the mutex is not held.
  static void Copy(NamespaceState& state, std::vector<StateCopy> copies);

  // Takes the next keys in byte order, at most `max_keys`. Adds to `copies` the
  // states that the caller must have copied by Copy. Returns whether there may
  // be more keys.
  bool Walk(NamespaceState& state, size_t max_keys,
            std::vector<StateCopy>& copies);
  // Removes and returns the keys that have been taken since the last call.
  std::vector<SnapshotKey> Take() { return std::exchange(taken_, {}); }
  // Blocks, with the mutex released, until Take would return a key. Returns
  // false if it never will: because all keys are taken, or because of status().
  bool Await(NamespaceState& state);
  // Blocks, with the mutex released, until no copy is under way. REQUIRES: this
  // is not the namespace's snapshot any more, so that none begins.
  void AwaitCopies(NamespaceState& state);

  // Keeps `status` if it is the first error, after which the snapshot is worth
  // nothing, and wakes Await.
  void UpdateStatus(const absl::Status& status) {
    status_.Update(status);
    changed_.notify_all();
  }
  const absl::Status& status() const { return status_; }

 private:
  // RuleOfKey is what a change of rules replaces.
  struct RuleOfKey {
    SharedRule rule;
    RefPtr<RuleState> state;
    uint64_t update_count = 0;
    double total_weight = 0;
  };
  struct Waiting {
    SnapshotKey key;
    // That were ahead and have not ended.
    uint64_t num_updates = 0;
    // The rule as it was before it changed, if it has.
    std::optional<RuleOfKey> former;
  };

  // Returns whether nothing is to be done about the key any more, or the
  // snapshot does not have it.
  bool IsHandled(const StoredKey& key) const;
  // Returns whether the key is one of those that the snapshot is of.
  bool Has(const StoredKey& key) const {
    return fence_ == nullptr || fence_->Fences(name_space_, key.name());
  }
  // Takes the key now, or after the updates that are ahead.
  void Handle(StoredKey& key, std::vector<StateCopy>& copies);
  // Takes the key as it is now, but with `rule`. REQUIRES: no update is ahead.
  void TakeNow(StoredKey& key, SnapshotKey taken, const RuleOfKey& rule,
               std::vector<StateCopy>& copies);
  static RuleOfKey RuleNow(const StoredKey& key) {
    return {key.rule, key.rule_state, key.update_count, key.total_weight()};
  }

  const absl::string_view name_space_;
  const std::shared_ptr<const KeyFence::View> fence_;
  // Keys with names up to here are handled, and these, which are all in the
  // table: so their addresses are no other keys'.
  std::string walked_;
  absl::flat_hash_set<const StoredKey*> handled_;
  absl::flat_hash_map<StoredKey*, Waiting> waiting_;
  std::vector<SnapshotKey> taken_;
  size_t num_copying_ = 0;
  absl::Status status_;
  // Not a CondVar: the mutex is a fair one.
  std::condition_variable_any changed_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ONGOING_SNAPSHOT_H_
