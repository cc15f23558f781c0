// Runs what follows from changes of keys: updates and sums.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_RUNNER_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_RUNNER_H_

#include <memory>
#include <vector>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/updates/update_pass.h"

namespace tensorkv {

// Adds an update to the work of the transaction, or to its key's queue if
// something runs, or must run before. One without slots, of a round that all
// have skipped, only counts that round as closed.
void Enqueue(Transaction& transaction, StoredKey& key, PendingUpdate update);

// The updates of one key run one after another: the thread that finds a key
// idle runs its update if that is a small one; large ones, and what was pushed
// meanwhile, run on the pool. So no caller works for others without end.
// Updates on a device with memory of its own run there, and a thread of the
// device publishes them: no other waits, unless they are more than one plan.
// Thread-safe; its methods are called without the mutex.
class UpdateRunner {
 public:
  // `state` outlives this.
  explicit UpdateRunner(NamespaceState& state) : state_(state) {}

  // Runs the work here if it is little, else on the pool.
  void Run(WorkOfChange work);
  // Runs the work here, however much it is.
  void RunHere(WorkOfChange work);
  // Runs the work on the pool; does nothing when the store has ended.
  void RunOnPool(WorkOfChange work);

 private:
  // Runs the next update of each key, on the pool. REQUIRES: is_updating was
  // left set, and each has one.
  void RunNext(std::vector<KeyPtr> keys);
  // Runs the updates and publishes their values, here or on the device.
  void RunPass(UpdatePass updates);
  // Has the device run the updates, and a thread publish them.
  void StartPass(UpdatePass updates);
  // Ends a pass that has run, on a thread of the device, or for it.
  void PublishPass(std::unique_ptr<UpdatePass> pass);
  // Publishes the values of a pass in the transaction, which it locks and
  // unlocks; returns the keys that have more to run.
  std::vector<KeyPtr> Publish(Transaction& transaction, UpdatePass& pass);
  // Runs the next update of each key. REQUIRES: is_updating was left set.
  void RunPending(absl::Span<const KeyPtr> keys);
  // Does what Publish does, with the mutex held.
  static std::vector<KeyPtr> EndPass(Transaction& transaction,
                                     UpdatePass& pass);

  NamespaceState& state_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_RUNNER_H_
