// What follows from a change and must be computed without the mutex.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATE_WORK_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATE_WORK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ref_counted.h"
#include "service/store/keyspace/rounds.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/update_pass.h"

namespace tensorkv {

// Contributions of a key's round that are to be summed.
struct FoldOfKey {
  RefPtr<StoredKey> key;
  Fold fold;

  uint64_t size_bytes() const {
    return fold.slots.size() * key->num_elements() *
           SizeOf(AccumulateType(key->dtype()));
  }
};

struct UpdateWork {
  UpdatePass updates;
  std::vector<FoldOfKey> folds;

  bool empty() const { return updates.empty() && folds.empty(); }
  // The bytes that are read and written.
  uint64_t size_bytes() const {
    uint64_t bytes = updates.size_bytes();
    for (const FoldOfKey& fold : folds) bytes += fold.size_bytes();
    return bytes;
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATE_WORK_H_
