#include "service/store/keyspace/pull/row_access.h"

#include <utility>

#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

void RowAccess::Add(RefPtr<const RowIds> ids, Tensor rows) {
  bytes_ += rows.size_bytes();
  copies_.push_back({std::move(ids), rows.mutable_view()});
  rows_.push_back(std::move(rows));
}

void RowAccess::Begin(StoredKey& key) {
  value_ = {key.dtype(), key.num_elements(), key.value->data()};
  num_rows_ = key.num_rows();
}

void RowAccess::Run(Backend& device) {
  status_ = CopyRows(device, value_, num_rows_, copies_);
}

}  // namespace tensorkv
