// One fused pass over many keys: new = rule(stored, sum, state).

#ifndef TENSORKV_SERVICE_STORE_UPDATE_PASS_H_
#define TENSORKV_SERVICE_STORE_UPDATE_PASS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/stored_key.h"

namespace tensorkv {

// Takes the next update of some keys, runs them as one batch, publishes the
// values. Used by one thread: Take and Publish with the namespace's mutex
// held, Run without it; then the pass is destroyed, without it, which frees
// what was consumed.
class UpdatePass {
 public:
  // A key's update from Take to Publish.
  struct Item {
    RefPtr<StoredKey> key;
    PendingUpdate update;
    SharedRule rule;
    std::shared_ptr<RuleState> rule_state;
    bool must_fill_states = false;
    bool must_fill_master = false;
    uint64_t update_count = 0;
    // Whether the only contribution becomes the value as it is.
    bool adopts = false;
    // Equal when the value is written in place. `target` is null until Run
    // has allocated or adopted it.
    RefPtr<Buffer> stored;
    RefPtr<Buffer> target;
  };

  // `backend` outlives the pass. `staged` counts the tensors that may become
  // values instead of being copied.
  UpdatePass(Backend* backend, RefPtr<BudgetAccount> staged)
      : backend_(*backend), staged_(std::move(staged)) {}

  // Takes the first pending update of `key`, which then is_updating.
  // REQUIRES: key->has_pending().
  void Take(StoredKey* key);

  // Computes the new values. Errors: those of the backend; then no value has
  // changed.
  absl::Status Run();

  // Makes the new values those of their keys, if `status`, which Run returned,
  // is OK; ends the updates in any case.
  void Publish(const absl::Status& status);

  absl::Span<Item> items() { return absl::MakeSpan(items_); }

 private:
  static void Undo(const Item& item);
  bool CanAdopt(const Item& item) const;
  static void Adopt(Item& item);
  absl::Status AllocateTargets();
  absl::Status FillStates();
  absl::Status FillMasters();
  absl::Status ApplyRules();

  Backend& backend_;
  const RefPtr<BudgetAccount> staged_;
  std::vector<Item> items_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_UPDATE_PASS_H_
