// Keeps the deltas between values, encoded once for all who ask for them.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "service/store/byte_budget.h"
#include "service/store/memory_budgets.h"
#include "tensor/delta/delta_encodings.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// A delta from one value of a key to another. Immutable.
struct CachedDelta final : RefCounted {
  Tensor bytes;  // u8 of rank 1
  uint64_t digest = 0;
};
// Null where the whole value is to be sent.
using CachedDeltaPtr = RefPtr<const CachedDelta>;

// Names a delta: by the key's whole name, as a hash of it could be another
// key's too.
struct DeltaId {
  // That of the namespace.
  uint64_t incarnation = 0;
  std::string key;
  Version from = 0;
  Version to = 0;
  DType dtype = DType::kUnknown;
  DeltaEncodings encodings = {};

  friend bool operator==(const DeltaId&, const DeltaId&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const DeltaId& id) {
    return H::combine(std::move(state), id.incarnation, id.key, id.from, id.to,
                      id.dtype, id.encodings);
  }
};

// A reply that waits for deltas. Thread-safe.
class DeltaTaker {
 public:
  virtual ~DeltaTaker() = default;
  // Returns whether it waits yet. Called without a lock.
  virtual bool IsWaiting() = 0;
  // Gives it the delta that it has asked for as number `index`. Called without
  // a lock.
  virtual void Take(size_t index, const CachedDeltaPtr& delta) = 0;
};

// Has the deltas of all namespaces: those that are being encoded, and, for a
// minute since somebody asked for them last, those that are. Thread-safe.
//
// All that it has, and all that is reserved from it, is counted by
// ServerBudgets::deltas. Deltas can be encoded again, so that the ones which
// nobody has asked for the longest go whenever others need the memory.
class DeltaCache {
 public:
  // Says what Get has found.
  enum class Found {
    kThere,
    // Somebody encodes it; the taker gets it.
    kAwaited,
    // The caller is to have it encoded; the taker gets it.
    kMissing,
    // There is no memory for another one.
    kNoRoom,
  };

  // All outlive it.
  DeltaCache(const ServerBudgets* budgets, const Alarms* alarms);

  // Looks for a delta, which becomes `*delta` if it is there.
  Found Get(const DeltaId& id, const std::shared_ptr<DeltaTaker>& taker,
            size_t index, CachedDeltaPtr* delta);
  // Returns whether somebody waits for that delta yet. If not, it is missing
  // again. REQUIRES for this, Add and Abandon: Get has said that it is missing.
  bool IsAwaited(const DeltaId& id);
  // Keeps the delta, or that the whole is smaller, and tells all who wait.
  void Add(const DeltaId& id, const CachedDeltaPtr& delta);
  // Has all who wait send the whole.
  void Abandon(const DeltaId& id);

  // Reserves memory for what has to do with deltas; old ones go for it. Errors:
  // ResourceExhausted.
  absl::StatusOr<Reservation> Reserve(uint64_t bytes);
  // Returns whether it has deltas that must go as others need the memory.
  bool IsAboveRoom() const;
  // Lets go of such, and of those that nobody asks for any more. Returns
  // whether some are left.
  bool Trim();

  // Returns how many deltas were encoded.
  uint64_t num_encoded() const {
    return num_encoded_.load(std::memory_order_relaxed);
  }

 private:
  struct Waiting {
    std::shared_ptr<DeltaTaker> taker;
    size_t index = 0;
  };
  struct Entry {
    uint64_t bytes() const {
      return overhead.bytes() + (delta ? delta->bytes.size_bytes() : 0);
    }

    Reservation overhead;
    // Empty once it is encoded.
    std::vector<Waiting> waiting;
    bool is_encoded = false;
    CachedDeltaPtr delta;
    // When somebody has asked for it last, and where it is in `order_`: only
    // once it is encoded.
    absl::Duration used;
    std::list<const DeltaId*>::iterator place;
  };
  // Its names stay where they are.
  using Entries = absl::node_hash_map<DeltaId, Entry>;
  // Is to be destroyed without the mutex.
  using Dropped = std::vector<Entries::node_type>;

  // Does what Get does, if there is an entry.
  Found GetEntry(Entry& entry, const std::shared_ptr<DeltaTaker>& taker,
                 size_t index, CachedDeltaPtr* delta)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldest(Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets go of so many bytes of what was asked for the longest ago.
  void DropBytes(uint64_t bytes);
  static void Tell(const std::vector<Waiting>& waiting,
                   const CachedDeltaPtr& delta);

  const ServerBudgets& budgets_;
  const Alarms& alarms_;
  // Outlives the entries.
  const RefPtr<BudgetAccount> account_;
  std::atomic<uint64_t> num_encoded_{0};

  Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  // The encoded ones; the one that was asked for last comes last.
  std::list<const DeltaId*> order_ ABSL_GUARDED_BY(mutex_);
  // Is the sum of their bytes().
  uint64_t encoded_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_
