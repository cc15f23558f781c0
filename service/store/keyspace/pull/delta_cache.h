// The deltas between values of a namespace, made once for all who ask for them.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "service/store/byte_budget.h"
#include "service/store/namespace_summary.h"
#include "tensor/delta/delta_encodings.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// What has changed from one value of a key to another, as a reader gets it.
// Immutable.
struct MadeDelta final : RefCounted {
  Tensor bytes;  // u8 of rank 1
  uint64_t digest = 0;
};
// Null where the whole takes fewer bytes, or there was no memory.
using MadeDeltaPtr = RefPtr<const MadeDelta>;

// Names a delta.
struct DeltaId {
  std::string key;
  Version from = 0;
  Version to = 0;
  DType dtype = DType::kUnknown;
  DeltaEncodings encodings = {};

  friend bool operator==(const DeltaId&, const DeltaId&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const DeltaId& id) {
    return H::combine(std::move(state), id.key, id.from, id.to, id.dtype,
                      id.encodings);
  }
};

// Keeps those that were asked for last, up to a number of bytes. Thread-safe.
class DeltaCache {
 public:
  using Done = absl::AnyInvocable<void(const MadeDeltaPtr&) &&>;

  // Deltas that are kept, which are destroyed with this.
  struct Kept {
    struct Entry {
      MadeDeltaPtr delta;
      Reservation overhead;
      uint64_t bytes = 0;
      // Where it is in `order`.
      std::list<DeltaId>::iterator place;
    };

    absl::flat_hash_map<DeltaId, Entry> entries;
    // The one that was asked for last comes last.
    std::list<DeltaId> order;
    uint64_t bytes = 0;
  };

  // Bounds the bytes of the deltas that it keeps, which `budget` counts.
  DeltaCache(uint64_t max_bytes, const RefPtr<ByteBudget>& budget);

  // Tells this life of the namespace from others, in tokens: a random number.
  uint64_t incarnation() const { return incarnation_; }

  // Calls `done` with the delta: now, or when Add has it. Returns whether the
  // caller is the one to make it, and to call Add.
  bool Get(const DeltaId& id, Done done);

  // Returns what it takes to keep a delta of so many bytes.
  static uint64_t BytesOf(const DeltaId& id, uint64_t delta_bytes);
  // Returns bytes for a delta that is to be kept; none if it is too large.
  Reservation Reserve(uint64_t bytes) const;
  // Tells all who wait. Keeps the delta, or that there is none, if there are
  // bytes for that beside those of the delta's buffer.
  void Add(const DeltaId& id, MadeDeltaPtr delta, Reservation overhead);
  // Lets go of all that it keeps, which the caller destroys.
  Kept Clear();

  // Returns the bytes of what is kept or is about to be, and of what was let
  // go and is being sent yet.
  uint64_t used_bytes() const { return account_->used_bytes(); }

  // Counts the values of a reply.
  void Count(const ChangeCounts& reply);
  ChangeCounts counts() const;

 private:
  // Lets the oldest go until the others are within the bound.
  void Trim(std::vector<MadeDeltaPtr>& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t incarnation_;
  const uint64_t max_bytes_;
  const RefPtr<BudgetAccount> account_;
  mutable Mutex mutex_;
  // Those who wait for what is being made.
  absl::flat_hash_map<DeltaId, std::vector<Done>> waiting_
      ABSL_GUARDED_BY(mutex_);
  Kept kept_ ABSL_GUARDED_BY(mutex_);
  ChangeCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_
