#include "service/store/keyspace/row_turn.h"

#include <utility>

#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

void RowTurn::Add(RefPtr<const RowIds> ids, Tensor rows) {
  bytes_ += rows.size_bytes();
  copies_.push_back({std::move(ids), rows.mutable_view()});
  rows_.push_back(std::move(rows));
}

void RowTurn::Begin(const StoredKey& key) {
  value_ = {key.dtype(), key.num_elements(), key.value->data()};
  num_rows_ = key.num_rows();
}

void RowTurn::Run(Backend& device) {
  status_ = CopyRows(device, value_, num_rows_, copies_);
}

}  // namespace tensorkv
