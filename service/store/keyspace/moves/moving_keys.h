// Tells what a move has yet to send of keys that go on changing.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_MOVES_MOVING_KEYS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_MOVES_MOVING_KEYS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "service/store/byte_budget.h"
#include "service/store/key_fence.h"
#include "service/store/keyspace/rules/rule_bindings.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/snapshot.h"

namespace tensorkv {

// The keys of one namespace that a move sends in stages: in the first all of
// them, in each later one what has changed since the one before began. A key
// tells by its revision that it has changed. What the revision does not tell,
// that a key is removed or that a round has closed which all have skipped, is
// recorded here. Guarded by the namespace's mutex.
class MovingKeys {
 public:
  // Recorded is names of keys, and the bytes that they take.
  struct Recorded {
    absl::flat_hash_set<std::string> names;
    Reservation overhead;
  };

  // The keys of the partitions that `partitions` fences move. `account` counts
  // what is recorded.
  MovingKeys(absl::string_view name_space,
             std::shared_ptr<const KeyFence::View> partitions,
             RefPtr<BudgetAccount> account)
      : name_space_(name_space),
        partitions_(std::move(partitions)),
        account_(std::move(account)) {}

  const std::shared_ptr<const KeyFence::View>& partitions() const {
    return partitions_;
  }

  // Says what the next stage is: the last one, in which no call changes the
  // keys any more, or not.
  enum class Stage { kAhead, kLast };

  // Begins a stage, of which `snapshot` says then whether it sends changes
  // alone. Changes with revisions up to `revision` are of this one or an
  // earlier one. Under other rules than those of the stage before, states are
  // other ones, and all is sent anew. REQUIRES: EndStage has ended the one
  // before. Errors: ResourceExhausted: it could not be recorded what has
  // changed.
  absl::Status BeginStage(Stage stage, uint64_t revision,
                          std::shared_ptr<const RuleBindings> rules,
                          NamespaceSnapshot& snapshot);
  // Returns whether this stage is to send the key, which is in the table.
  bool HasChanged(StoredKey& key) const;
  // Returns what was recorded before this stage. Needs no mutex: it changes
  // only between stages.
  std::vector<std::string> RecordedNames() const {
    return {recorded_.names.begin(), recorded_.names.end()};
  }
  // Ends the stage, if it has begun. Where the receiver does not have all of
  // it, the next one sends all anew. Returns what was recorded before it, to be
  // let go without the mutex.
  Recorded EndStage(bool is_sent);

  // Records that a key has changed otherwise than its revision tells.
  void Record(absl::string_view key);

 private:
  const std::string name_space_;
  const std::shared_ptr<const KeyFence::View> partitions_;
  const RefPtr<BudgetAccount> account_;
  Stage stage_ = Stage::kAhead;
  bool is_under_way_ = false;
  // Changes up to this revision are of earlier stages.
  uint64_t sent_ = 0;
  // Changes up to this one are of this stage or an earlier one.
  uint64_t begun_ = 0;
  // Null: the next stage sends all.
  std::shared_ptr<const RuleBindings> rules_;
  // Recorded before this stage, and since it began.
  Recorded recorded_;
  Recorded recorded_since_;
  absl::Status recording_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_MOVES_MOVING_KEYS_H_
