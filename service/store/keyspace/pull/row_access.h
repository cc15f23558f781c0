// Reads rows of a key, between its updates.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_ACCESS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_ACCESS_H_

#include <cstdint>
#include <vector>

#include "base/ref_counted.h"
#include "contract/row_ids.h"
#include "kernels/backend.h"
#include "service/store/keyspace/updates/key_access.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "tensor/tensor.h"

namespace tensorkv {

// An access in which rows are copied to memory of the key's device: so a reader
// of rows never holds the value, which an update would have to copy then.
class RowAccess final : public KeyAccess {
 public:
  // Adds rows to read: those of `ids`, which the key has, go to `rows`, memory
  // of the key's device.
  void Add(RefPtr<const RowIds> ids, Tensor rows);

  bool uses_states() const override { return false; }
  void Begin(StoredKey& key) override;
  void Run(Backend& device) override;
  uint64_t size_bytes() const override { return 2 * bytes_; }

 private:
  std::vector<RowsToCopy> copies_;
  std::vector<Tensor> rows_;  // where they go
  uint64_t bytes_ = 0;
  TensorView value_;
  int64_t num_rows_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_ACCESS_H_
