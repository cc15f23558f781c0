#include "service/store/keyspace/row_turn.h"

#include "service/store/keyspace/row_batches.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

void RowTurn::Begin(const StoredKey& key) {
  value_ = {key.dtype(), key.num_elements(), key.value->data()};
  num_rows_ = key.num_rows();
}

void RowTurn::Run(Backend& device) {
  status_ = CopyRows(device, value_, num_rows_, *ids_, rows_.mutable_view());
}

}  // namespace tensorkv
