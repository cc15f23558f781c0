// Reading rows of a key, in its turn among the updates.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROW_TURN_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROW_TURN_H_

#include <cstdint>
#include <utility>

#include "base/ref_counted.h"
#include "contract/row_ids.h"
#include "kernels/backend.h"
#include "service/store/keyspace/key_turn.h"
#include "tensor/tensor.h"

namespace tensorkv {

// A turn in which rows are copied to memory of the key's device: so a reader of
// rows never holds the value, which an update would have to copy then.
class RowTurn final : public KeyTurn {
 public:
  // `ids` are of rows that the key has, and `rows` has memory for them.
  RowTurn(RefPtr<const RowIds> ids, Tensor rows)
      : ids_(std::move(ids)), rows_(std::move(rows)) {}

  bool uses_states() const override { return false; }
  void Begin(const StoredKey& key) override;
  void Run(Backend& device) override;
  uint64_t size_bytes() const override { return 2 * rows_.size_bytes(); }

 private:
  const RefPtr<const RowIds> ids_;
  Tensor rows_;
  TensorView value_;
  int64_t num_rows_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROW_TURN_H_
