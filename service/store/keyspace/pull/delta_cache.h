// The deltas between values of a namespace, made once for all who ask for them.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
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
  uint64_t key_hash = 0;
  Version from = 0;
  Version to = 0;
  DType dtype = DType::kUnknown;
  DeltaEncodings encodings = {};

  friend bool operator==(const DeltaId&, const DeltaId&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const DeltaId& id) {
    return H::combine(std::move(state), id.key_hash, id.from, id.to, id.dtype,
                      id.encodings);
  }
};

// Keeps those that were asked for last, up to a number of bytes. Thread-safe.
class DeltaCache {
 public:
  using Done = absl::AnyInvocable<void(const MadeDeltaPtr&) &&>;

  // Bounds the bytes of the deltas that it keeps.
  explicit DeltaCache(uint64_t max_bytes);

  // Tells this life of the namespace from others, in tokens: a random number.
  uint64_t incarnation() const { return incarnation_; }

  // Calls `done` with the delta: now, or when Add has it. Returns whether the
  // caller is the one to make it, and to call Add.
  bool Get(const DeltaId& id, Done done);
  // Tells all who wait. Keeps the delta if `is_kept`, or that there is none.
  void Add(const DeltaId& id, MadeDeltaPtr delta, bool is_kept);

  uint64_t used_bytes() const;
  // Returns how many deltas were made.
  uint64_t num_made() const;

 private:
  struct Entry {
    // None once the delta is there.
    std::vector<Done> waiting;
    bool is_made = false;
    MadeDeltaPtr delta;
    // Where it is in `order_`, once it is made.
    std::list<DeltaId>::iterator place;
  };

  static uint64_t BytesOf(const MadeDeltaPtr& delta);

  const uint64_t incarnation_;
  const uint64_t max_bytes_;
  mutable Mutex mutex_;
  absl::flat_hash_map<DeltaId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // The one that was asked for last comes last.
  std::list<DeltaId> order_ ABSL_GUARDED_BY(mutex_);
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_made_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_CACHE_H_
